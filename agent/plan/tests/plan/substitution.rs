//! `$(…)` in a profile, as it comes out of a whole plan.

use serde_json::{Value, json};

use crate::given::{World, shown};

/// The argument that becomes of `text`.
fn argument(world: &mut World, text: &str) -> Value {
    world.content()["args"] = json!([text]);
    world.container()["args"][0].clone()
}

/// Why `text` can't be an argument.
fn refusal(world: &mut World, text: &str) -> String {
    world.content()["args"] = json!(["fine", text]);
    shown(&world.report().verdicts[0])
}

#[test]
fn the_models_name_is_its_own_where_it_has_one() {
    let mut world = World::well();
    world.placement["spec"]["model"]["name"] = json!("chat");
    assert_eq!(argument(&mut world, "$(model.name)"), "chat");
}

#[test]
fn the_models_name_is_the_servers_where_it_has_none() {
    assert_eq!(argument(&mut World::well(), "$(model.name)"), "llama");
}

#[test]
fn the_models_uri_is_as_it_was_written() {
    assert_eq!(
        argument(&mut World::well(), "$(model.uri)"),
        "hf://org/llama"
    );
}

#[test]
fn every_port_has_a_name_also_one_that_shares_its_number() {
    let mut world = World::well();
    assert_eq!(argument(&mut world, "$(port.http)"), "8000");
    assert_eq!(argument(&mut world, "$(port.metrics)"), "8000");
    assert_eq!(argument(&mut world, "$(port.grpc)"), "9000");
}

#[test]
fn names_are_replaced_in_the_command_too() {
    let mut world = World::well();
    world.content()["command"] = json!(["run", "$(model.uri)"]);
    assert_eq!(
        world.container()["command"],
        json!(["run", "hf://org/llama"])
    );
}

#[test]
fn a_fault_in_the_command_is_told_with_its_place() {
    let mut world = World::well();
    world.content()["command"] = json!(["run", "$(oops"]);
    assert_eq!(
        shown(&world.report().verdicts[0]),
        "False InvalidProfile: RuntimeProfile echo, spec.command[1]: $( has no closing ): write $$( for a literal $("
    );
}

#[test]
fn a_variable_of_the_container_is_no_name() {
    let refusal = refusal(&mut World::well(), "$(POD_NAME)");
    assert!(
        refusal.starts_with(
            "False InvalidProfile: RuntimeProfile echo, spec.args[1]: $(POD_NAME) is unknown"
        ),
        "{refusal}"
    );
}

#[test]
fn a_name_is_taken_letter_by_letter() {
    for text in ["$( port.http)", "$(Port.http)", "$()", "$(port)"] {
        let refusal = refusal(&mut World::well(), text);
        assert!(
            refusal.contains("is unknown: use one of accelerator.count, model.name, "),
            "{refusal}"
        );
    }
}

#[test]
fn a_name_of_the_model_needs_a_model() {
    let mut world = World::well();
    world.placement["spec"]["model"] = Value::Null;
    for name in ["model.name", "model.uri"] {
        assert_eq!(
            refusal(&mut world, &format!("$({name})")),
            format!(
                "False InvalidProfile: RuntimeProfile echo, spec.args[1]: $({name}) needs a model: set spec.model of the InferenceServer"
            )
        );
    }
}

#[test]
fn an_escaped_name_is_handed_on_escaped() {
    assert_eq!(
        argument(&mut World::well(), "$$(port.http)"),
        "$$(port.http)"
    );
}

#[test]
fn a_dollar_in_a_value_is_escaped_for_kubernetes() {
    let mut world = World::well();
    world.placement["spec"]["model"]["uri"] = json!("hf://$(HOME)");
    assert_eq!(argument(&mut world, "$(model.uri)"), "hf://$$(HOME)");
}

#[test]
fn a_dollar_before_anything_else_is_a_dollar() {
    assert_eq!(
        argument(&mut World::well(), "$HOME costs 5$"),
        "$HOME costs 5$"
    );
}
