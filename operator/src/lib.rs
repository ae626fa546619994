//! What hub and agent both stand on: apply and ownership, wake-ups, telemetry, the admin endpoint.
