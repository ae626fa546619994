//! What clients and probes see of the server.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::PathBuf;

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, Response, StatusCode},
};
use echo::{POD_UID_HEADER, Server, args::Pod, router};
use futures::{StreamExt, channel::oneshot, stream};
use serde_json::{Value, json};
use tower::ServiceExt;

fn server(model_config: Option<PathBuf>) -> Server {
    let pod = Pod {
        name: "llama-0".to_owned(),
        namespace: "team-a".to_owned(),
        uid: "u-1".to_owned(),
        node: "n-1".to_owned(),
    };
    Server::new(pod, model_config)
}

/// A model list in a file of its own, which goes with the guard.
struct ListFile(PathBuf);

impl ListFile {
    fn new(test: &str, content: &str) -> Self {
        let path = std::env::temp_dir().join(format!("echo-{}-{test}.json", std::process::id()));
        std::fs::write(&path, content).unwrap();
        Self(path)
    }
}

impl Drop for ListFile {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.0);
    }
}

async fn answer(router: &Router, request: Request<Body>) -> Response<Body> {
    router.clone().oneshot(request).await.unwrap()
}

async fn text(response: Response<Body>) -> String {
    let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

async fn get(router: &Router, path: &str) -> (StatusCode, Value) {
    let response = answer(router, Request::get(path).body(Body::empty()).unwrap()).await;
    let status = response.status();
    (
        status,
        serde_json::from_str(&text(response).await).unwrap_or_default(),
    )
}

async fn post(router: &Router, path: &str, body: &Value) -> (StatusCode, String) {
    let request = Request::post(path)
        .header("content-type", "application/json")
        .body(Body::from(body.to_string()))
        .unwrap();
    let response = answer(router, request).await;
    (response.status(), text(response).await)
}

#[tokio::test]
async fn every_response_says_which_pod_answered() {
    let router = router(server(None));
    for path in ["/", "/v2/health/ready", "/v2/models/nobody", "/nowhere"] {
        let response = answer(&router, Request::get(path).body(Body::empty()).unwrap()).await;
        assert_eq!(response.headers()[POD_UID_HEADER], "u-1", "{path}");
    }
    let (_, index) = get(&router, "/").await;
    assert_eq!(
        index["pod"],
        json!({"name": "llama-0", "namespace": "team-a", "uid": "u-1", "node": "n-1"})
    );
}

#[tokio::test]
async fn kserve_outputs_are_the_inputs() {
    let router = router(server(None));
    let inputs = json!([{"name": "x", "shape": [2], "datatype": "FP32", "data": [1.5, 2.0]}]);
    let (status, body) = post(
        &router,
        "/v2/models/echo/infer",
        &json!({"id": "7", "inputs": inputs}),
    )
    .await;
    assert_eq!(status, StatusCode::OK);
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (
            &body["outputs"],
            &body["id"],
            &body["model_name"],
            &body["pod"]["uid"]
        ),
        (&inputs, &json!("7"), &json!("echo"), &json!("u-1"))
    );
    assert_eq!(get(&router, "/v2").await.1["name"], "echo");
    assert_eq!(
        get(&router, "/v2/models/echo").await.1["versions"],
        json!(["1"])
    );
    assert_eq!(get(&router, "/v2/models/echo/ready").await.1["ready"], true);
}

#[tokio::test]
async fn a_chat_is_answered_with_its_last_message() {
    let router = router(server(None));
    let messages = json!([
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "hello fleet"}]},
    ]);
    let request = json!({"model": "echo", "messages": messages});
    let (status, body) = post(&router, "/v1/chat/completions", &request).await;
    assert_eq!(status, StatusCode::OK);
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["choices"][0]["message"]["content"], "hello fleet");
    assert_eq!(
        (&body["object"], &body["usage"]["total_tokens"]),
        (&json!("chat.completion"), &json!(4))
    );
    assert_eq!(body["pod"]["uid"], "u-1");

    let (_, body) = post(
        &router,
        "/v1/completions",
        &json!({"model": "echo", "prompt": "abc"}),
    )
    .await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["choices"][0]["text"], "abc");
}

#[tokio::test]
async fn a_stream_gives_a_word_an_event_and_ends_with_done() {
    let router = router(server(None));
    let request = json!({"model": "echo", "stream": true, "messages": [{"role": "user", "content": "hello fleet"}]});
    let (_, body) = post(&router, "/v1/chat/completions", &request).await;
    let events: Vec<&str> = body
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .collect();
    let deltas: Vec<String> = events[..events.len() - 1]
        .iter()
        .map(|event| {
            serde_json::from_str::<Value>(event).unwrap()["choices"][0]["delta"]["content"]
                .to_string()
        })
        .collect();
    assert_eq!(deltas, ["\"hello \"", "\"fleet\"", "null"]);
    assert_eq!(events.last(), Some(&"[DONE]"));
}

#[tokio::test]
async fn the_model_list_is_what_the_file_says_at_the_time() {
    let file = ListFile::new(
        "list",
        r#"{"models":[{"name":"llama","uri":"hf://m/llama"}]}"#,
    );
    let router = router(server(Some(file.0.clone())));
    let (_, list) = get(&router, "/v1/models").await;
    assert_eq!(
        (&list["data"][0]["id"], &list["data"][0]["root"]),
        (&json!("llama"), &json!("hf://m/llama"))
    );
    assert_eq!(
        get(&router, "/v2/models/echo").await.0,
        StatusCode::NOT_FOUND
    );
    let request = json!({"model": "echo", "prompt": ""});
    assert_eq!(
        post(&router, "/v1/completions", &request).await.0,
        StatusCode::NOT_FOUND
    );

    std::fs::write(&file.0, r#"{"models":[{"name":"echo"}]}"#).unwrap();
    assert_eq!(get(&router, "/v2/models/echo").await.0, StatusCode::OK);
}

#[tokio::test]
async fn an_unreadable_model_list_makes_the_server_unready_and_keeps_it_alive() {
    let missing = router(server(Some(PathBuf::from("/nonexistent/model-list.json"))));
    let broken = ListFile::new("broken", "{");
    for router in [missing, router(server(Some(broken.0.clone())))] {
        assert_eq!(
            get(&router, "/v2/health/ready").await.0,
            StatusCode::SERVICE_UNAVAILABLE
        );
        assert_eq!(get(&router, "/v2/health/live").await.0, StatusCode::OK);
    }
}

#[tokio::test]
async fn a_draining_server_is_unready_and_finishes_what_is_in_flight() {
    let server = server(None);
    let drain = server.drain();
    let router = router(server);
    assert_eq!(get(&router, "/v2/health/ready").await.0, StatusCode::OK);

    // A request whose body has not all arrived is in flight.
    let (finish, rest) = oneshot::channel::<String>();
    let body = stream::iter([Ok(r#"{"model":"echo","#.to_owned())]).chain(stream::once(rest));
    let request = Request::post("/v1/completions")
        .header("content-type", "application/json")
        .body(Body::from_stream(body))
        .unwrap();
    let mut flying = Box::pin(answer(&router, request));
    assert!(futures::poll!(&mut flying).is_pending());

    drain.begin();
    assert_eq!(
        get(&router, "/v2/health/ready").await.0,
        StatusCode::SERVICE_UNAVAILABLE
    );
    let mut idle = Box::pin(drain.idle());
    assert!(futures::poll!(&mut idle).is_pending());

    finish.send(r#""prompt":"late"}"#.to_owned()).unwrap();
    assert!(text(flying.await).await.contains("late"));
    idle.await;
}
