//! Writes the CRDs into the folder given as the only argument, one file each.

use std::{env, fs, path::PathBuf, process::ExitCode};

fn main() -> ExitCode {
    let Some(folder) = env::args_os().nth(1).map(PathBuf::from) else {
        return failed("usage: crdgen FOLDER");
    };
    let definitions = match crds::definitions() {
        Ok(definitions) => definitions,
        Err(error) => return failed(&format!("derive: {error}")),
    };
    for (name, definition) in definitions {
        let path = folder.join(format!("{name}.yaml"));
        let text = match crds::manifest(&definition) {
            Ok(text) => text,
            Err(error) => return failed(&format!("render {name}: {error}")),
        };
        if let Err(error) = fs::write(&path, text) {
            return failed(&format!("write {}: {error}", path.display()));
        }
    }
    ExitCode::SUCCESS
}

#[expect(
    clippy::print_stderr,
    reason = "a program that a person runs says what went wrong"
)]
fn failed(message: &str) -> ExitCode {
    eprintln!("crdgen: {message}");
    ExitCode::FAILURE
}
