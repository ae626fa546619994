//! The session between hub and agents: messages, sans-IO machines, and their transport.
