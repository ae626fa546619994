//! Which plugin is for which kind of target.

use std::{collections::BTreeMap, sync::Arc};

/// Plugins by `<targetType>:<subType>`. An empty sub-type is one of its own: that of who names none.
#[derive(Debug)]
pub struct Registrar<P: ?Sized> {
    plugins: BTreeMap<String, Arc<P>>,
}

impl<P: ?Sized> Default for Registrar<P> {
    fn default() -> Self {
        Self {
            plugins: BTreeMap::new(),
        }
    }
}

/// What a registrar refuses.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Two plugins for one key. Michelangelo's registrar lets the second take the place of the first in silence.
    #[error(
        "a plugin for {key} is registered already: choose another sub-type, or leave one of the two out"
    )]
    Taken {
        /// `<targetType>:<subType>`.
        key: String,
    },
    /// Nobody is registered for it.
    #[error("no plugin for {key}; there are: {}", if known.is_empty() { "none" } else { known })]
    Unknown {
        /// `<targetType>:<subType>`.
        key: String,
        /// The keys that there are, with commas between.
        known: String,
    },
}

impl<P: ?Sized> Registrar<P> {
    /// Registers a plugin.
    ///
    /// # Errors
    /// [`Error::Taken`] when there is one for that key.
    pub fn register(
        &mut self,
        target_type: &str,
        sub_type: &str,
        plugin: Arc<P>,
    ) -> Result<(), Error> {
        let key = format!("{target_type}:{sub_type}");
        if self.plugins.contains_key(&key) {
            return Err(Error::Taken { key });
        }
        self.plugins.insert(key, plugin);
        Ok(())
    }

    /// The plugin of that key.
    ///
    /// # Errors
    /// [`Error::Unknown`] when there is none.
    pub fn get(&self, target_type: &str, sub_type: &str) -> Result<&Arc<P>, Error> {
        let key = format!("{target_type}:{sub_type}");
        self.plugins.get(&key).ok_or_else(|| {
            let keys: Vec<_> = self.plugins.keys().map(String::as_str).collect();
            Error::Unknown {
                known: keys.join(", "),
                key: key.clone(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_taken_stays_with_the_first() {
        let mut registrar = Registrar::default();
        registrar
            .register("OFFLINE", "", Arc::new("first"))
            .unwrap();
        registrar
            .register("OFFLINE", "batch", Arc::new("other"))
            .unwrap();
        let second = registrar.register("OFFLINE", "", Arc::new("second"));
        assert_eq!(
            second,
            Err(Error::Taken {
                key: "OFFLINE:".to_owned()
            })
        );
        assert_eq!(**registrar.get("OFFLINE", "").unwrap(), "first");
        assert_eq!(**registrar.get("OFFLINE", "batch").unwrap(), "other");
    }

    #[test]
    fn who_asks_for_what_is_not_there_is_told_what_is() {
        let mut registrar = Registrar::default();
        let error = registrar.get("MOBILE", "").map(|plugin: &Arc<()>| **plugin);
        assert_eq!(
            error.unwrap_err().to_string(),
            "no plugin for MOBILE:; there are: none"
        );
        registrar.register("OFFLINE", "a", Arc::new(())).unwrap();
        registrar.register("OFFLINE", "b", Arc::new(())).unwrap();
        let error = registrar.get("OFFLINE", "").unwrap_err();
        assert_eq!(
            error.to_string(),
            "no plugin for OFFLINE:; there are: OFFLINE:a, OFFLINE:b"
        );
    }
}
