//! What a pass says in the log.

use super::*;
use crate::fake::Log;

#[tokio::test]
async fn a_line_of_the_log_names_the_server_once_and_grows_with_no_pass() {
    let api = api();
    api.refuse(Method::PATCH, "/llama/status", StatusCode::FORBIDDEN);
    let (reconciler, _) = stepping(&api, Err(broken()));
    let log = Log::default();
    let guard = log.follow();
    for _ in 0..3 {
        let next = Arc::clone(&reconciler).reconcile(key()).await;
        assert_eq!(next, Next::Retry);
    }
    drop(guard);
    let lines = log.lines();
    let [first, rest @ ..] = lines.as_slice() else {
        panic!("nothing was logged");
    };
    let same = [first.clone(), first.clone()];
    assert_eq!(rest, same, "one line for each pass, and the same");
    let named = first.matches(r#""server":"team/llama""#).count();
    assert_eq!(named, 1, "{first}");
}
