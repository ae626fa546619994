//! A tiny program for the bed's own tests: it answers every HTTP request with who it is.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use anyhow::Result;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Map, Value, json};

/// Serves on `port` for ever. The answer is a JSON object: the request's path, the environment, and what
/// the path asks for: `/file?PATH` the text of a file, `/get?IP:PORT` what is answered there to `GET /`,
/// `/whoami` who the API server takes this program for; `/exit` ends the program with code 1.
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
    let env: Map<String, Value> = std::env::vars().map(|(name, value)| (name, Value::String(value))).collect();
    let asked = match path.split_once('?') {
        Some(("/file", file)) => std::fs::read_to_string(file).map_err(Into::into),
        Some(("/get", address)) => get(address),
        _ if path == "/whoami" => who_am_i(),
        _ => Ok(String::new()),
    };
    let body = json!({"path": path, "env": env, "text": asked.unwrap_or_else(|error| format!("{error:#}"))});
    let body = body.to_string();
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )?;
    Ok(())
}

fn get(address: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET / HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// Asks the API server, with the Pod's own token at the address that its environment names.
fn who_am_i() -> Result<String> {
    crate::install_crypto();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = kube::Client::try_from(kube::Config::incluster()?)?;
        let review = Api::all(client).create(&PostParams::default(), &SelfSubjectReview::default()).await?;
        let user = review.status.and_then(|status| status.user_info?.username);
        Ok(user.unwrap_or_default())
    })
}
