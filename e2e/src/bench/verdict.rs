//! What a benchmark came to: a table for a person, then one line of JSON for a program.

use std::process::ExitCode;

use serde::Serialize;
use serde_json::{Map, Value};

/// The last line of a benchmark.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Verdict {
    /// Its name.
    pub(crate) bench: &'static str,
    /// What was measured of the product, in `unit`.
    pub(crate) figure: f64,
    /// Of `figure` and `floor`.
    pub(crate) unit: &'static str,
    /// The same of whatever it is compared to; none where the target is a number of its own.
    pub(crate) floor: Option<f64>,
    /// `figure / floor`.
    pub(crate) ratio: Option<f64>,
    /// What has to hold, in words.
    pub(crate) target: String,
    /// Does it?
    pub(crate) ok: bool,
    /// Whatever else was measured.
    #[serde(flatten)]
    pub(crate) more: Map<String, Value>,
}

impl Verdict {
    /// One line. Floats are cut to thousandths, so that a person can read them as well.
    fn line(&self) -> serde_json::Result<String> {
        let mut value = serde_json::to_value(self)?;
        round(&mut value);
        serde_json::to_string(&value)
    }

    /// Prints the line, and returns how the program ends.
    pub(crate) fn print(&self) -> anyhow::Result<ExitCode> {
        say(&self.line()?);
        Ok(if self.ok {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

fn round(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let rounded = number
                .as_f64()
                .map(|float| (float * 1000.0).round() / 1000.0);
            *value = rounded.into();
        }
        Value::Array(values) => values.iter_mut().for_each(round),
        Value::Object(values) => values.values_mut().for_each(round),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Columns as wide as what is in them; the first to the left, the others to the right.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let widths: Vec<_> = (0..columns)
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or_default()
        })
        .collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells: Vec<_> = cells
            .map(|(column, (cell, &width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            })
            .collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Prints a table with its heads.
pub(crate) fn show(heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    let mut all = vec![heads.iter().map(ToString::to_string).collect()];
    all.extend(rows);
    say(&table(&all));
    say("");
}

/// Prints a line of the result.
#[expect(clippy::print_stdout, reason = "this is what a benchmark is for")]
pub(crate) fn say(text: &str) {
    println!("{text}");
}

/// Tells a person what is going on, apart from the result.
#[expect(clippy::print_stderr, reason = "a run takes minutes")]
pub(crate) fn tell(text: &str) {
    eprintln!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict() -> Verdict {
        Verdict {
            bench: "propagation",
            figure: 12.345_678,
            unit: "ms",
            floor: Some(10.0),
            ratio: Some(1.234_567_8),
            target: "p99 ≤ 1.5 × floor".to_owned(),
            ok: true,
            more: Map::new(),
        }
    }

    #[test]
    fn the_last_line_has_what_every_benchmark_says() {
        assert_eq!(
            verdict().line().unwrap(),
            r#"{"bench":"propagation","figure":12.346,"floor":10.0,"ok":true,"ratio":1.235,"target":"p99 ≤ 1.5 × floor","unit":"ms"}"#
        );
    }

    #[test]
    fn a_benchmark_without_a_floor_says_so_and_more_stands_beside() {
        let more = [("rounds".to_owned(), Value::from(3))]
            .into_iter()
            .collect();
        let verdict = Verdict {
            floor: None,
            ratio: None,
            ok: false,
            more,
            ..verdict()
        };
        let line: Value = serde_json::from_str(&verdict.line().unwrap()).unwrap();
        assert_eq!(line["floor"], Value::Null);
        assert_eq!(line["ratio"], Value::Null);
        assert_eq!(line["rounds"], 3);
        assert_eq!(line["ok"], false);
        assert!(!verdict.line().unwrap().contains('\n'));
    }

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let rows = [["", "p50"], ["floor", "1.0"], ["figure", "12.0"]];
        let rows = rows.map(|row| row.map(ToOwned::to_owned).to_vec());
        assert_eq!(table(&rows), "         p50\nfloor    1.0\nfigure  12.0");
    }
}
