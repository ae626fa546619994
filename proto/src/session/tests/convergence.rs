//! Whatever happens in between, once it is quiet the cluster holds exactly what is wanted.
//!
//! A [`World`] has the hub's API objects, both machines, the wire between them, and a member cluster that applies and removes
//! in its own time. A test runs any list of [`Step`]s, checks at each of them what must always hold, then lets it all settle.

mod world;

use proptest::prelude::*;

use self::world::{Step, World};

fn step() -> impl Strategy<Value = Step> {
    let key = 0..3_usize;
    prop_oneof![
        4 => (key.clone(), 0..3_u8).prop_map(|(key, content)| Step::Want { key, content }),
        1 => key.clone().prop_map(|key| Step::Recreate { key }),
        2 => key.clone().prop_map(|key| Step::Remove { key }),
        1 => key.prop_map(|key| Step::Vanish { key }),
        2 => Just(Step::Connect),
        1 => Just(Step::Disconnect),
        1 => Just(Step::RestartHub),
        1 => Just(Step::RestartAgent),
        6 => (1..4_usize).prop_map(Step::HubSends),
        6 => (1..4_usize).prop_map(Step::AgentSends),
        6 => (1..4_usize).prop_map(Step::AgentHears),
        6 => (1..4_usize).prop_map(Step::HubHears),
        3 => Just(Step::HubHearsOldSession),
        4 => (0..3_usize).prop_map(|key| Step::MemberWorks { key }),
        1 => (0..3_usize).prop_map(|key| Step::MemberRefuses { key }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn once_quiet_a_cluster_holds_exactly_what_is_wanted(steps in proptest::collection::vec(step(), 0..120)) {
        let mut world = World::default();
        for step in steps {
            world.step(&step);
        }
        world.settle();
    }
}

#[test]
fn the_world_itself_moves() {
    let mut world = World::default();
    world.step(&Step::Want { key: 0, content: 1 });
    world.step(&Step::Want { key: 1, content: 1 });
    world.step(&Step::Connect);
    world.settle();
    world.step(&Step::Recreate { key: 0 });
    world.step(&Step::Remove { key: 1 });
    world.settle();
    assert_eq!(world.applies, 3);
    assert_eq!(world.removals, 2);
}
