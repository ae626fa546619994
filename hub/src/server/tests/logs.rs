//! What a pass says in the log.

use std::{
    io,
    sync::{Mutex, PoisonError},
};

use tracing_subscriber::fmt::MakeWriter;

use super::*;

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn a_line_of_the_log_names_the_server_once_and_grows_with_no_pass() {
    let api = api();
    api.refuse(Method::PATCH, "/llama/status", StatusCode::FORBIDDEN);
    let failure = Failure {
        reason: "Broken".to_owned(),
        message: "no".to_owned(),
        passing: false,
        again: Again::OnEvent,
    };
    let step: actors::Actor = Arc::new(Step {
        ran: Err(failure),
        runs: AtomicUsize::new(0),
    });
    let steps = Arc::new(Steps::new(vec![step]).unwrap());
    let reconciler = reconciler(&api, |_, _| steps);
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().without_time();
    let subscriber = subscriber.json().with_writer(log.clone()).finish();
    let guard = tracing::subscriber::set_default(subscriber);
    for _ in 0..3 {
        let next = Arc::clone(&reconciler).reconcile(key()).await;
        assert_eq!(next, Next::Retry);
    }
    drop(guard);
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<_> = log.lines().collect();
    let [first, rest @ ..] = lines.as_slice() else {
        panic!("nothing was logged");
    };
    assert_eq!(rest, [*first; 2], "one line for each pass, and the same");
    let named = first.matches(r#""server":"team/llama""#).count();
    assert_eq!(named, 1, "{first}");
}
