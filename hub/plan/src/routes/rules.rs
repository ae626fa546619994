//! Which paths a server has, on which hosts, and which HTTPRoute holds which of them.

use std::collections::{BTreeMap, BTreeSet};

use crds::{
    names,
    v1alpha1::{RouteTimeouts, RoutingRule},
};

use crate::{
    facts::Facts,
    shards::{number, shards},
};

/// A route takes at most this many rules (Gateway API, `HTTPRouteSpec.rules`).
const RULES_PER_ROUTE: usize = 16;
/// What members route by: no client path of the hub's may lie there, since the control cluster may be a member itself.
const MEMBERS: &str = "/cluster";

/// One path.
#[derive(Clone, Debug)]
pub(super) struct Rule<'a> {
    /// Its beginning, as clients ask for it.
    pub(super) path: String,
    /// What takes its place, as members route by it.
    pub(super) to: String,
    pub(super) timeouts: Option<&'a RouteTimeouts>,
}

/// Paths on the same hosts.
#[derive(Debug)]
pub(super) struct Group<'a> {
    hostnames: Option<Vec<String>>,
    rules: BTreeMap<String, Rule<'a>>,
    name: fn(&str, usize) -> String,
}

/// The groups of a server.
pub(super) fn groups<'a>(facts: &'a Facts<'_>) -> Vec<Group<'a>> {
    let routing = &facts.server.spec.routing;
    let own = own_path(facts);
    let members = format!("{MEMBERS}{own}");
    let rule = |path: &str, to: String, timeouts: Option<&'a RouteTimeouts>| Rule {
        path: path.to_owned(),
        to,
        timeouts: timeouts.or(routing.timeouts.as_ref()),
    };
    let further = routing
        .rules
        .iter()
        .filter(|further| reason(facts, further).is_none());
    let further = further.map(|further| {
        let to = format!("{members}{}", further.to.trim_end_matches('/'));
        rule(&further.path, to, further.timeouts.as_ref())
    });
    let further: Vec<_> = further.collect();
    let by_path = |rules: Vec<Rule<'a>>| {
        let named = rules.into_iter().map(|rule| (rule.path.clone(), rule));
        named.collect()
    };
    let mut everywhere = vec![rule(&own, members.clone(), None)];
    everywhere.extend(
        further
            .iter()
            .filter(|rule| is_below(&rule.path, &own))
            .cloned(),
    );
    let mut groups = vec![Group {
        hostnames: None,
        rules: by_path(everywhere),
        name: names::discovery_route,
    }];
    if !routing.hostnames.is_empty() {
        let mut hosted = vec![
            rule("/", format!("{members}/"), None),
            rule(&own, members, None),
        ];
        hosted.extend(further);
        groups.push(Group {
            hostnames: Some(routing.hostnames.clone()),
            rules: by_path(hosted),
            name: names::hostnames_route,
        });
    }
    groups
}

/// The path that every server has.
fn own_path(facts: &Facts<'_>) -> String {
    format!("/{}/{}", facts.namespace(), facts.name())
}

fn is_below(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent)
        .is_some_and(|rest| rest.starts_with('/'))
}

/// The rules that are not served, each with why.
pub fn refused(facts: &Facts<'_>) -> Vec<(String, String)> {
    let rules = facts.server.spec.routing.rules.iter();
    rules
        .filter_map(|rule| Some((rule.path.clone(), reason(facts, rule)?)))
        .collect()
}

/// Why a rule is not served.
fn reason(facts: &Facts<'_>, rule: &RoutingRule) -> Option<String> {
    let own = own_path(facts);
    let path = rule.path.as_str();
    // Gateways resolve such elements (RFC 3986, section 6.2.2.3): what looks like the server's own may so become another's. The
    // API server refuses a route with one in a match (Gateway API, `HTTPPathMatch`).
    for (field, path) in [("path", path), ("to", &rule.to)] {
        if path.split('/').any(|element| matches!(element, "." | "..")) {
            return Some(format!("its {field} has . or .. as an element"));
        }
    }
    if path == MEMBERS || is_below(path, MEMBERS) {
        return Some(format!(
            "{MEMBERS}/... are the paths between hub and members"
        ));
    }
    let hosted = !facts.server.spec.routing.hostnames.is_empty();
    if path == own || (path == "/" && hosted) {
        return Some("the server is there already".to_owned());
    }
    if !hosted && !is_below(path, &own) {
        return Some(format!(
            "without hostnames a path has to lie below {own}/, so that no server takes another's"
        ));
    }
    None
}

impl Group<'_> {
    /// The HTTPRoutes of the group: name, host names, rules in the order of their paths.
    pub(super) fn routes(
        &self,
        facts: &Facts<'_>,
    ) -> Vec<(String, Option<Vec<String>>, Vec<Rule<'_>>)> {
        let before = self.places(facts);
        let shards = shards(self.rules.keys().cloned(), &before, RULES_PER_ROUTE);
        shards
            .into_iter()
            .map(|(shard, paths): (usize, BTreeSet<String>)| {
                let rules = paths.iter().filter_map(|path| self.rules.get(path));
                let name = (self.name)(facts.name(), shard);
                (name, self.hostnames.clone(), rules.cloned().collect())
            })
            .collect()
    }

    /// Which route each path is in now.
    fn places(&self, facts: &Facts<'_>) -> BTreeMap<String, usize> {
        let mut places = BTreeMap::new();
        let first = (self.name)(facts.name(), 0);
        let prefix = first.strip_suffix('0').unwrap_or(&first);
        for route in &facts.observed.routes {
            let Some(shard) = number(&route.metadata, prefix) else {
                continue;
            };
            let rules = route.spec.rules.iter().flatten();
            let matches = rules.flat_map(|rule| rule.matches.iter().flatten());
            for path in matches.filter_map(|of| of.path.as_ref()?.value.clone()) {
                places.insert(path, shard);
            }
        }
        places
    }
}
