//! What the product's processes use: CPU time and memory, as the kernel counts them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// What a component's processes have used until now, all of them together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// CPU time, in user and kernel mode.
    pub(super) cpu: Duration,
    /// Resident memory, in bytes.
    pub(super) resident: u64,
    /// How many processes there are.
    pub(super) processes: u32,
}

/// The fields of `/proc/PID/stat` (proc_pid_stat(5)) that are read here.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    name: String,
    parent: u32,
    ticks: u64,
    pages: u64,
}

/// The kernel's USER_HZ, which is 100 wherever Linux runs Rust.
const TICK: Duration = Duration::from_millis(10);
/// The size of a page on the machines that the bed runs on.
const PAGE_BYTES: u64 = 4096;

/// What the processes called `name` use that descend from this one: those of this run's own fleet.
pub(super) fn usage(name: &str) -> Result<Usage> {
    let processes = processes(Path::new("/proc"))?;
    let found = total(&processes, std::process::id(), name);
    ensure!(found.processes > 0, "no process {name} runs");
    Ok(found)
}

fn processes(folder: &Path) -> Result<BTreeMap<u32, Process>> {
    let mut processes = BTreeMap::new();
    for entry in std::fs::read_dir(folder).context("read /proc")? {
        let entry = entry?;
        let Some(id) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        // One that has just ended can't be read.
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok();
        if let Some(process) = stat.as_deref().and_then(process) {
            processes.insert(id, process);
        }
    }
    Ok(processes)
}

/// The name stands in parentheses and may hold anything; what follows the last one is numbers, beginning with field 3.
fn process(stat: &str) -> Option<Process> {
    let (before, after) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    let fields: Vec<_> = after.split_whitespace().collect();
    let number = |field: usize| fields.get(field.checked_sub(3)?)?.parse::<u64>().ok();
    Some(Process {
        name,
        parent: u32::try_from(number(4)?).ok()?,
        ticks: number(14)?.checked_add(number(15)?)?,
        pages: number(24)?,
    })
}

fn total(processes: &BTreeMap<u32, Process>, ancestor: u32, name: &str) -> Usage {
    let descends = |mut id: u32| {
        // The tree can't be deeper than it has processes.
        for _ in 0..processes.len() {
            if id == ancestor {
                return true;
            }
            let Some(process) = processes.get(&id) else {
                return false;
            };
            id = process.parent;
        }
        false
    };
    let ours = processes
        .iter()
        .filter(|(id, process)| process.name == name && descends(**id));
    ours.fold(Usage::default(), |sum, (_, process)| Usage {
        cpu: sum.cpu + TICK * u32::try_from(process.ticks).unwrap_or(u32::MAX),
        resident: sum.resident + process.pages * PAGE_BYTES,
        processes: sum.processes + 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(name: &str, parent: u32, user: u64, system: u64, pages: u64) -> Process {
        let zeros = "0 ".repeat(9);
        let line =
            format!("1 ({name}) S {parent} {zeros}{user} {system} 0 0 20 0 1 0 5 1000 {pages} 1");
        process(&line).unwrap()
    }

    #[test]
    fn a_process_is_read_whatever_its_name_holds() {
        let read = stat("a) b (c", 7, 3, 4, 25);
        assert_eq!(
            read,
            Process {
                name: "a) b (c".to_owned(),
                parent: 7,
                ticks: 7,
                pages: 25
            }
        );
        assert_eq!(process("1 (short) S 1"), None);
    }

    #[test]
    fn only_descendants_of_that_name_count() {
        let processes = BTreeMap::from([
            (10, stat("e2e", 1, 9, 9, 9)),
            (11, stat("init", 10, 9, 9, 9)),
            (12, stat("agent", 11, 1, 1, 2)),
            (13, stat("agent", 11, 2, 0, 3)),
            (14, stat("hub", 11, 50, 0, 50)),
            // Of another fleet, and one whose parent has ended.
            (15, stat("agent", 1, 70, 0, 70)),
            (16, stat("agent", 999, 70, 0, 70)),
        ]);
        let agents = total(&processes, 10, "agent");
        assert_eq!(agents.processes, 2);
        assert_eq!(agents.cpu, Duration::from_millis(40));
        assert_eq!(agents.resident, 5 * PAGE_BYTES);
        assert_eq!(total(&processes, 10, "none"), Usage::default());
    }
}
