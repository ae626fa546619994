//! Questions by HTTP: plain, as member gateways are spoken to.

use crds::labels;
use futures::future::BoxFuture;
use http_body_util::Empty;
use hyper::{Request, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, task::JoinSet};

use super::{Ask, Question};

/// Asks by HTTP/1.1, on a connection of each question's own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Http;

impl Ask for Http {
    fn ask(&self, question: Question) -> BoxFuture<'static, Result<(), String>> {
        Box::pin(ask(question))
    }
}

async fn ask(question: Question) -> Result<(), String> {
    let Question { address, path, uid } = question;
    let stream = TcpStream::connect(address).await;
    let stream = stream.map_err(|error| format!("can't connect: {error}"))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| format!("speaks no HTTP: {error}"))?;
    let request = Request::get(&path)
        .header(hyper::header::HOST, address.to_string())
        .header(hyper::header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| format!("can't be asked: {error}"))?;
    // Ends with this question, whatever becomes of it.
    let mut task = JoinSet::new();
    task.spawn(connection);
    let answer = sender.send_request(request).await;
    let answer = answer.map_err(|error| format!("no answer: {error}"))?;
    let whose = answer.headers().get(labels::PLACEMENT_HEADER);
    if !answer.status().is_success() {
        Err(format!("answers {}", answer.status()))
    } else if whose.is_none_or(|whose| whose.as_bytes() != uid.as_bytes()) {
        Err("the answer is not this server's: does another route take its path?".to_owned())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use axum::{Router, http::StatusCode, routing::get};
    use tokio::net::TcpListener;

    use super::*;

    /// What is said of a server that answers so.
    async fn said(status: StatusCode, whose: &'static str) -> Result<(), String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answer = move || async move { (status, [(labels::PLACEMENT_HEADER, whose)], "ready") };
        let router = Router::new().route("/cluster/team/llama/-/ready", get(answer));
        let serve = tokio::spawn(async move { axum::serve(listener, router).await });
        let question = Question {
            address,
            path: "/cluster/team/llama/-/ready".to_owned(),
            uid: "uid-1".to_owned(),
        };
        let said = Http.ask(question).await;
        serve.abort();
        said
    }

    #[tokio::test]
    async fn only_a_good_answer_of_this_very_placement_counts() {
        assert_eq!(said(StatusCode::OK, "uid-1").await, Ok(()));
        let other = said(StatusCode::OK, "uid-2").await.unwrap_err();
        assert!(other.contains("not this server's"), "{other}");
        // Gateways put the header on their own error pages as well.
        let down = said(StatusCode::SERVICE_UNAVAILABLE, "uid-1").await;
        assert_eq!(down, Err("answers 503 Service Unavailable".to_owned()));
    }

    #[tokio::test]
    async fn where_nobody_listens_nothing_is_reached() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let question = Question {
            address,
            path: "/".to_owned(),
            uid: String::new(),
        };
        let said = Http.ask(question).await.unwrap_err();
        assert!(said.starts_with("can't connect"), "{said}");
    }
}
