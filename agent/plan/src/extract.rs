//! How much of a text is told: a message has an end, and what others say of a thing may be long.

/// Stands for what was left out.
const CUT: &str = "…";

/// Its beginning, at most `length_max` bytes, cut between characters.
pub(crate) fn beginning(text: String, length_max: usize) -> String {
    if text.len() <= length_max {
        return text;
    }
    let end = text.floor_char_boundary(length_max.saturating_sub(CUT.len()));
    format!("{}{CUT}", text.get(..end).unwrap_or_default())
}

/// Its last lines that say something, on one line: at most `lines_max`, and `length_max` bytes.
pub(crate) fn last_lines(text: &str, lines_max: usize, length_max: usize) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut lines: Vec<&str> = lines.rev().take(lines_max).collect();
    lines.reverse();
    let text = lines.join(" | ");
    if text.len() <= length_max {
        return text;
    }
    let left_out = text.len().saturating_sub(length_max) + CUT.len();
    let start = text.ceil_char_boundary(left_out);
    format!("{CUT}{}", text.get(start..).unwrap_or_default())
}
