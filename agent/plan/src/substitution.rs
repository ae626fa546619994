//! `$(…)` in a profile's command and arguments: a closed list of names, and an escape.
//!
//! Kubernetes expands the same syntax once more, for environment variables, when it starts the container
//! (`third_party/forked/golang/expansion`). So what is literal here is handed on in a form that it reads as literal:
//! `$$` stays `$$`, and each `$` of a value becomes `$$`. What the container sees is exactly what was meant.

use std::{collections::BTreeMap, fmt};

/// The names that may be used, and what they stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names(BTreeMap<String, Result<String, String>>);

/// Why a text can't be substituted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Invalid {
    /// No such name.
    Unknown { name: String, known: String },
    /// The name stands for something that the placement has not: what it needs.
    NotSet { name: String, needs: String },
    /// `$(` without its `)`.
    Unclosed,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, known } => {
                write!(
                    f,
                    "$({name}) is unknown: use one of {known}, or $$( for a literal $("
                )
            }
            Self::NotSet { name, needs } => write!(f, "$({name}) {needs}"),
            Self::Unclosed => f.write_str("$( has no closing ): write $$( for a literal $("),
        }
    }
}

impl Names {
    /// `name` stands for `value`, or says what it needs to stand for something.
    pub(crate) fn insert(&mut self, name: impl Into<String>, value: Result<String, String>) {
        self.0.insert(name.into(), value);
    }

    /// The text with each name replaced, as a Pod's command, argument or variable takes it.
    pub(crate) fn substitute(&self, text: &str) -> Result<String, Invalid> {
        self.replaced(text, "$$")
    }

    /// The text with each name replaced, where Kubernetes replaces nothing.
    pub(crate) fn expand(&self, text: &str) -> Result<String, Invalid> {
        self.replaced(text, "$")
    }

    /// `dollar`: what stands for a literal `$` where it might begin a name.
    fn replaced(&self, text: &str, dollar: &str) -> Result<String, Invalid> {
        let mut result = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            result.push_str(before);
            if let Some(after) = after.strip_prefix('$') {
                result.push_str(dollar);
                rest = after;
            } else if let Some(after) = after.strip_prefix('(') {
                let (name, after) = after.split_once(')').ok_or(Invalid::Unclosed)?;
                result.push_str(&self.value(name)?.replace('$', dollar));
                rest = after;
            } else {
                result.push('$');
                rest = after;
            }
        }
        result.push_str(rest);
        Ok(result)
    }

    fn value(&self, name: &str) -> Result<&str, Invalid> {
        match self.0.get(name) {
            Some(Ok(value)) => Ok(value),
            Some(Err(needs)) => Err(Invalid::NotSet {
                name: name.to_owned(),
                needs: needs.clone(),
            }),
            None => Err(Invalid::Unknown {
                name: name.to_owned(),
                known: self.0.keys().cloned().collect::<Vec<_>>().join(", "),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(uri: Option<&str>) -> Names {
        let mut names = Names::default();
        let uri = uri.map(ToOwned::to_owned);
        names.insert("model.uri", uri.ok_or_else(|| "needs a model".to_owned()));
        names.insert("port.http", Ok("8000".to_owned()));
        names
    }

    /// What a container sees, by Kubernetes' own rule and with no variable defined.
    fn seen(argument: &str) -> String {
        let mut seen = String::new();
        let mut characters = argument.chars().peekable();
        while let Some(character) = characters.next() {
            seen.push(character);
            if character == '$' && characters.peek() == Some(&'$') {
                characters.next();
            }
        }
        seen
    }

    #[test]
    fn names_are_replaced_and_escapes_stay_literal() {
        let names = names(Some("hf://m"));
        for (text, expected) in [
            ("--port=$(port.http)", "--port=8000"),
            ("$(model.uri)$(port.http)", "hf://m8000"),
            ("$$(port.http)", "$(port.http)"),
            ("$$$(port.http)", "$8000"),
            ("a$b $", "a$b $"),
            ("", ""),
        ] {
            assert_eq!(seen(&names.substitute(text).unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn where_kubernetes_replaces_nothing_a_dollar_is_one() {
        let names = names(Some("$(a)$$"));
        for (text, expected) in [
            ("/$(port.http)/ready", "/8000/ready"),
            ("/$$(port.http)", "/$(port.http)"),
            ("/$(model.uri)$", "/$(a)$$$"),
        ] {
            assert_eq!(names.expand(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn an_unknown_name_is_told_with_those_that_exist() {
        let error = names(None).substitute("$(model.nme)").unwrap_err();
        assert_eq!(
            error.to_string(),
            "$(model.nme) is unknown: use one of model.uri, port.http, or $$( for a literal $("
        );
        assert_eq!(
            names(None).substitute("$(model.uri)"),
            Err(Invalid::NotSet {
                name: "model.uri".to_owned(),
                needs: "needs a model".to_owned(),
            })
        );
        assert_eq!(names(None).substitute("x $(port"), Err(Invalid::Unclosed));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_text_makes_it_panic(text in r"[$(){}a-z.\PC]{0,40}") {
            let _result = names(None).substitute(&text);
        }

        #[test]
        fn a_value_reaches_the_container_unchanged(value in r"[$()a-z]{0,20}") {
            let argument = names(Some(&value)).substitute("<$(model.uri)>").unwrap();
            prop_assert_eq!(seen(&argument), format!("<{value}>"));
        }
    }
}
