//! The OpenAI API: the completion is the prompt, whole or as server-sent events, a word each.
//! <https://platform.openai.com/docs/api-reference/chat>

use std::convert::Infallible;

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{
        IntoResponse, Response,
        sse::{Event, Sse},
    },
};
use futures::stream;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::routes::{Server, unavailable};

/// Ids and times of the answers: there is no clock and no memory here, and clients only ask that the fields exist.
const CREATED: u64 = 0;

#[derive(Debug, Deserialize)]
pub(crate) struct CompletionRequest {
    model: String,
    prompt: Content,
    #[serde(default)]
    stream: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ChatRequest {
    model: String,
    messages: Vec<Message>,
    #[serde(default)]
    stream: bool,
}

#[derive(Debug, Deserialize)]
struct Message {
    content: Content,
}

/// A text, or several parts of one.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Part {
    Text(String),
    Typed {
        #[serde(default)]
        text: String,
    },
}

impl Content {
    fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Parts(parts) => parts.into_iter().map(Part::into_text).collect(),
        }
    }
}

impl Part {
    fn into_text(self) -> String {
        match self {
            Self::Text(text) | Self::Typed { text } => text,
        }
    }
}

/// The two calls differ only in their shapes.
#[derive(Clone, Copy, Debug)]
enum Call {
    Completion,
    Chat,
}

impl Call {
    const fn object(self, streamed: bool) -> &'static str {
        match (self, streamed) {
            (Self::Completion, _) => "text_completion",
            (Self::Chat, false) => "chat.completion",
            (Self::Chat, true) => "chat.completion.chunk",
        }
    }

    fn choice(self, text: &str) -> Value {
        match self {
            Self::Completion => json!({ "index": 0, "text": text, "finish_reason": "stop" }),
            Self::Chat => {
                let message = json!({ "role": "assistant", "content": text });
                json!({ "index": 0, "message": message, "finish_reason": "stop" })
            }
        }
    }

    /// `None` ends the stream.
    fn piece(self, text: Option<&str>) -> Value {
        let finish = text.is_none().then_some("stop");
        match self {
            Self::Completion => {
                json!({ "index": 0, "text": text.unwrap_or_default(), "finish_reason": finish })
            }
            Self::Chat => {
                let delta = text.map_or_else(
                    || json!({}),
                    |text| json!({ "role": "assistant", "content": text }),
                );
                json!({ "index": 0, "delta": delta, "finish_reason": finish })
            }
        }
    }
}

pub(crate) async fn models(State(server): State<Server>) -> Response {
    match server.models.read().await {
        Ok(models) => {
            let data: Vec<Value> = models
                .iter()
                .map(|model| {
                    json!({
                        "id": model.name,
                        "object": "model",
                        "created": CREATED,
                        "owned_by": "inferfleet",
                        "root": model.uri,
                    })
                })
                .collect();
            Json(json!({ "object": "list", "data": data, "pod": server.who() })).into_response()
        }
        Err(error) => unavailable(&error),
    }
}

pub(crate) async fn completions(
    State(server): State<Server>,
    Json(request): Json<CompletionRequest>,
) -> Response {
    let text = request.prompt.into_text();
    complete(
        &server,
        Call::Completion,
        &request.model,
        &text,
        request.stream,
    )
    .await
}

/// Echoes the last message.
pub(crate) async fn chat(
    State(server): State<Server>,
    Json(mut request): Json<ChatRequest>,
) -> Response {
    let last = request.messages.pop();
    let text = last.map_or_else(String::new, |message| message.content.into_text());
    complete(&server, Call::Chat, &request.model, &text, request.stream).await
}

async fn complete(
    server: &Server,
    call: Call,
    model: &str,
    text: &str,
    streamed: bool,
) -> Response {
    match server.models.find(model).await {
        Ok(Some(_)) => {}
        Ok(None) => return unknown(model),
        Err(error) => return unavailable(&error),
    }
    let envelope = |choice: Value| {
        json!({
            "id": "echo",
            "object": call.object(streamed),
            "created": CREATED,
            "model": model,
            "choices": [choice],
            "pod": server.who(),
        })
    };
    if streamed {
        let words = text.split_inclusive(' ').map(Some).chain([None]);
        let mut events: Vec<Result<Event, Infallible>> = words
            .map(|word| Ok(Event::default().data(envelope(call.piece(word)).to_string())))
            .collect();
        events.push(Ok(Event::default().data("[DONE]")));
        return Sse::new(stream::iter(events)).into_response();
    }
    let mut answer = envelope(call.choice(text));
    if let Some(fields) = answer.as_object_mut() {
        // A word is a token here.
        let words = text.split_whitespace().count();
        let usage = json!({
            "prompt_tokens": words,
            "completion_tokens": words,
            "total_tokens": words.saturating_mul(2),
        });
        fields.insert("usage".to_owned(), usage);
    }
    Json(answer).into_response()
}

fn unknown(model: &str) -> Response {
    let error = json!({
        "message": format!("The model `{model}` does not exist"),
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    });
    (StatusCode::NOT_FOUND, Json(json!({ "error": error }))).into_response()
}
