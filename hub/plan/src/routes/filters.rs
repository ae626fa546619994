//! What happens to a request at the hub's gateway: its path becomes the members', and headers as the server asks.

use crds::v1alpha1::{Header, HeaderFilter, Routing};
use gateway_api::httproutes::{
    HttpRouteRulesFilters, HttpRouteRulesFiltersRequestHeaderModifier,
    HttpRouteRulesFiltersRequestHeaderModifierAdd, HttpRouteRulesFiltersRequestHeaderModifierSet,
    HttpRouteRulesFiltersResponseHeaderModifier, HttpRouteRulesFiltersResponseHeaderModifierAdd,
    HttpRouteRulesFiltersResponseHeaderModifierSet, HttpRouteRulesFiltersType,
    HttpRouteRulesFiltersUrlRewrite, HttpRouteRulesFiltersUrlRewritePath,
    HttpRouteRulesFiltersUrlRewritePathType,
};

/// The filters of one rule, in the order in which they apply.
pub(super) fn filters(routing: &Routing, to: &str) -> Vec<HttpRouteRulesFilters> {
    let mut filters = vec![rewrite(to.to_owned())];
    filters.extend(routing.request_headers.as_ref().and_then(request));
    filters.extend(routing.response_headers.as_ref().and_then(response));
    filters
}

fn rewrite(prefix: String) -> HttpRouteRulesFilters {
    HttpRouteRulesFilters {
        r#type: HttpRouteRulesFiltersType::UrlRewrite,
        url_rewrite: Some(HttpRouteRulesFiltersUrlRewrite {
            hostname: None,
            path: Some(HttpRouteRulesFiltersUrlRewritePath {
                r#type: HttpRouteRulesFiltersUrlRewritePathType::ReplacePrefixMatch,
                replace_prefix_match: Some(prefix),
                replace_full_path: None,
            }),
        }),
        ..HttpRouteRulesFilters::default()
    }
}

/// An empty list is no list: the API server would keep it, and a gateway may refuse it.
fn listed<T, U>(of: &[T], each: impl Fn(&T) -> U) -> Option<Vec<U>> {
    (!of.is_empty()).then(|| of.iter().map(each).collect())
}

fn request(filter: &HeaderFilter) -> Option<HttpRouteRulesFilters> {
    let modifier = HttpRouteRulesFiltersRequestHeaderModifier {
        set: listed(&filter.set, |Header { name, value }| {
            HttpRouteRulesFiltersRequestHeaderModifierSet {
                name: name.clone(),
                value: value.clone(),
            }
        }),
        add: listed(&filter.add, |Header { name, value }| {
            HttpRouteRulesFiltersRequestHeaderModifierAdd {
                name: name.clone(),
                value: value.clone(),
            }
        }),
        remove: listed(&filter.remove, String::clone),
    };
    (filter != &HeaderFilter::default()).then(|| HttpRouteRulesFilters {
        r#type: HttpRouteRulesFiltersType::RequestHeaderModifier,
        request_header_modifier: Some(modifier),
        ..HttpRouteRulesFilters::default()
    })
}

fn response(filter: &HeaderFilter) -> Option<HttpRouteRulesFilters> {
    let modifier = HttpRouteRulesFiltersResponseHeaderModifier {
        set: listed(&filter.set, |Header { name, value }| {
            HttpRouteRulesFiltersResponseHeaderModifierSet {
                name: name.clone(),
                value: value.clone(),
            }
        }),
        add: listed(&filter.add, |Header { name, value }| {
            HttpRouteRulesFiltersResponseHeaderModifierAdd {
                name: name.clone(),
                value: value.clone(),
            }
        }),
        remove: listed(&filter.remove, String::clone),
    };
    (filter != &HeaderFilter::default()).then(|| HttpRouteRulesFilters {
        r#type: HttpRouteRulesFiltersType::ResponseHeaderModifier,
        response_header_modifier: Some(modifier),
        ..HttpRouteRulesFilters::default()
    })
}
