//! Logs. Fields, not prose; one line per transition; levels by `RUST_LOG`.

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line, for collectors.
    #[default]
    Json,
    /// For people.
    Text,
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "json" => Ok(Self::Json),
            "text" => Ok(Self::Text),
            other => Err(format!("{other:?} is no log format: json or text")),
        }
    }
}

/// Sends the process's logs to standard error. Without `RUST_LOG`, from `info` on. Called once, by `main`.
pub fn start(format: Format) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_unset| EnvFilter::new("info"));
    let registry = tracing_subscriber::registry().with(filter);
    match format {
        Format::Json => registry
            .with(fmt::layer().json().with_writer(std::io::stderr))
            .init(),
        Format::Text => registry
            .with(fmt::layer().with_writer(std::io::stderr))
            .init(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_json_or_text() {
        assert_eq!("json".parse(), Ok(Format::Json));
        assert_eq!("text".parse(), Ok(Format::Text));
        let refused = "xml".parse::<Format>().unwrap_err();
        assert!(refused.contains("json or text"), "{refused}");
    }
}
