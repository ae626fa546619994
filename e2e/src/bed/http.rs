//! A tiny program for the bed's own tests: it answers every HTTP request with who it is.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use anyhow::Result;
use serde_json::{Map, Value, json};

/// Serves on `port` for ever. The answer is a JSON object: the request's path, and the environment.
/// The path `/file?PATH` adds the text of a file, `/exit` ends the program with code 1.
pub fn serve_identity(port: u16) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?;
    for stream in listener.incoming() {
        let stream = stream?;
        std::thread::spawn(move || {
            // A client that went away is no reason to stop.
            drop(answer(&stream));
        });
    }
    Ok(())
}

fn answer(mut stream: &TcpStream) -> Result<()> {
    let mut reader = BufReader::new(stream);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let mut header = String::new();
    while reader.read_line(&mut header)? > 2 {
        header.clear();
    }
    let path = request.split(' ').nth(1).unwrap_or_default();
    if path == "/exit" {
        #[expect(clippy::exit, reason = "a crash is what was asked for")]
        std::process::exit(1);
    }
    let env: Map<String, Value> = std::env::vars()
        .map(|(name, value)| (name, Value::String(value)))
        .collect();
    let file = path
        .strip_prefix("/file?")
        .map(|file| std::fs::read_to_string(file).map_err(|e| e.to_string()));
    let body = json!({"path": path, "env": env, "file": file.map(|text| text.unwrap_or_else(|error| error))});
    let body = body.to_string();
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )?;
    Ok(())
}
