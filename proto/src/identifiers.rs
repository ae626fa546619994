//! What messages name, parsed at the edge: keys, hashes and session ids.
//!
//! Owns the grammar of these values and nothing else: whether a key may be used by whom is the receiver's to say.

use std::fmt;

use aws_lc_rs::digest;
use bytes::Bytes;

use crate::v1;

/// Longest namespace: a DNS label (RFC 1123).
const NAMESPACE_MAX: usize = 63;
/// Longest name: a DNS subdomain (RFC 1123).
const NAME_MAX: usize = 253;

/// Names a placement: the namespace and name of its `InferenceServer`. Shown as `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlacementKey {
    namespace: String,
    name: String,
}

/// Why a value of a message can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The message has no key.
    #[error("a key is missing")]
    NoKey,
    /// The key isn't two names as Kubernetes writes them.
    #[error("{0:?} is no namespace and name: lowercase letters, digits, '-' and, in the name, '.'")]
    Key(String),
    /// A UID is missing.
    #[error("the UID of {0} is missing")]
    NoUid(PlacementKey),
    /// The hash hasn't 32 bytes.
    #[error("a hash has {0} bytes instead of 32")]
    Hash(usize),
}

impl PlacementKey {
    /// Both parts must be names as Kubernetes writes them: a DNS label, and a DNS subdomain.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Result<Self, Malformed> {
        let (namespace, name) = (namespace.into(), name.into());
        let well = namespace.len() <= NAMESPACE_MAX
            && name.len() <= NAME_MAX
            && is_label(&namespace)
            && name.split('.').all(is_label);
        if well {
            Ok(Self { namespace, name })
        } else {
            Err(Malformed::Key(format!("{namespace}/{name}")))
        }
    }

    /// The namespace of the `InferenceServer`.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name of the `InferenceServer`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// As it stands in a message.
    pub fn to_wire(&self) -> v1::Key {
        v1::Key {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// From a message's field, where it may be missing or no key at all.
    pub fn from_wire(key: Option<&v1::Key>) -> Result<Self, Malformed> {
        let key = key.ok_or(Malformed::NoKey)?;
        Self::new(key.namespace.as_str(), key.name.as_str())
    }
}

/// A DNS label, of whatever length.
fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

impl fmt::Display for PlacementKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}

/// SHA-256 of a body, as sent. Shown in lowercase hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash([u8; 32]);

impl Hash {
    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let digest = digest::digest(&digest::SHA256, bytes);
        let mut hash = [0; 32];
        // SHA-256 has 32 bytes; zip needs no promise about it.
        for (to, from) in hash.iter_mut().zip(digest.as_ref()) {
            *to = *from;
        }
        Self(hash)
    }

    /// As it stands in a message.
    pub fn to_wire(self) -> Bytes {
        Bytes::copy_from_slice(&self.0)
    }

    /// From a message's field.
    pub fn from_wire(bytes: &[u8]) -> Result<Self, Malformed> {
        <[u8; 32]>::try_from(bytes)
            .map(Self)
            .map_err(|_error| Malformed::Hash(bytes.len()))
    }

    /// From what [`Display`](fmt::Display) wrote, as in an annotation.
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits: Vec<u8> = text
            .chars()
            .map(|digit| {
                digit
                    .to_digit(16)
                    .and_then(|digit| u8::try_from(digit).ok())
            })
            .collect::<Option<_>>()?;
        let bytes: Vec<u8> = digits
            .chunks_exact(2)
            .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
            .collect();
        // An odd digit too many would be lost by the chunks.
        if digits.len() != 64 {
            return None;
        }
        Self::from_wire(&bytes).ok()
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Hash({self})")
    }
}

/// Names one session of one cluster. The hub gives a new one to each stream, never 0 and never one twice in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

impl fmt::Display for SessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_two_kubernetes_names_and_nothing_else() {
        let key = PlacementKey::new("team-a", "qwen.v2").unwrap();
        assert_eq!(key.to_string(), "team-a/qwen.v2");
        assert_eq!(PlacementKey::from_wire(Some(&key.to_wire())), Ok(key));
        assert_eq!(PlacementKey::from_wire(None), Err(Malformed::NoKey));
        let long = "a".repeat(64);
        for (namespace, name) in [
            ("", "a"),
            ("a", ""),
            ("A", "a"),
            ("a.b", "a"),
            ("a", "../b"),
            ("a", "b-"),
            (&long, "a"),
        ] {
            assert!(
                PlacementKey::new(namespace, name).is_err(),
                "{namespace}/{name}"
            );
        }
    }

    #[test]
    fn a_hash_is_sha_256_and_survives_its_text() {
        let hash = Hash::of(b"abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_string(), text);
        assert_eq!(Hash::from_hex(text), Some(hash));
        assert_eq!(Hash::from_hex(&text[1..]), None);
        assert_eq!(Hash::from_hex(&format!("{text}0")), None);
        assert_eq!(Hash::from_wire(&hash.to_wire()), Ok(hash));
        assert_eq!(Hash::from_wire(b"short"), Err(Malformed::Hash(5)));
    }
}
