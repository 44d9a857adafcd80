//! `search-data`: zones, records and comments that match a pattern.

use std::sync::Arc;
use std::time::{Duration, Instant};

use config::api::ApiRight;
use hyper::StatusCode;
use serde_json::{Value, json};
use wire::{Type, ZoneName};
use zone_manager::managed::ZoneStatus;

use super::fault::Refused;
use super::pattern::SearchPattern;
use super::view::ShownParts;
use super::{names, zones};
use crate::documents::ZoneDocument;
use crate::parts::ApiParts;
use crate::request::ApiRequest;
use crate::rights::Scope;

/// Number of results without `max`.
const DEFAULT_RESULTS: usize = 100;
/// Longest time of one search.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(20);

/// What is searched.
struct Search {
    pattern: SearchPattern,
    most: usize,
    zones: bool,
    records: bool,
    comments: bool,
    ends: Instant,
}

impl Search {
    fn read(request: &ApiRequest) -> Result<Search, Refused> {
        let text = request.parameter("q").unwrap_or_default();
        if text.is_empty() {
            return Err(Refused::unfit("Parameter q, the pattern, is missing or empty"));
        }
        let most = match request.parameter("max") {
            None => DEFAULT_RESULTS,
            Some(digits) => {
                let fault = || Refused::unfit("Parameter max is not a number above 0");
                digits.parse().ok().filter(|most| *most > 0).ok_or_else(fault)?
            }
        };
        let (zones, records, comments) = match request.parameter("object_type").unwrap_or("all") {
            "all" => (true, true, true),
            "zone" => (true, false, false),
            "record" => (false, true, false),
            "comment" => (false, false, true),
            _ => return Err(Refused::unfit("Parameter object_type is one of: all, zone, record, comment")),
        };
        let (pattern, ends) = (SearchPattern::new(text), Instant::now() + SEARCH_TIMEOUT);
        Ok(Search { pattern, most, zones, records, comments, ends })
    }

    fn matches_name(&self, name: &str) -> bool {
        self.pattern.matches(name.strip_suffix('.').filter(|name| !name.is_empty()).unwrap_or(name))
    }

    fn matches_content(&self, content: &str) -> bool {
        self.pattern.matches(content)
            || content.strip_suffix('.').is_some_and(|content| self.pattern.matches(content))
    }

    /// # Errors
    /// The search has taken too long.
    fn check_time(&self) -> Result<(), Refused> {
        let text = "the search takes too long: search for zones only (object_type=zone), or read the zone";
        match Instant::now() < self.ends {
            true => Ok(()),
            false => Err(Refused::new(StatusCode::SERVICE_UNAVAILABLE, text)),
        }
    }
}

/// Returns what matches: zones first, then records, then comments.
///
/// # Errors
/// A parameter that cannot be used, or the search takes too long.
pub(super) fn results(api: &ApiParts, request: &ApiRequest) -> Result<Value, Refused> {
    let search = Search::read(request)?;
    let states = zones::readable(api, &request.caller);
    let mut found = Vec::new();
    if search.zones {
        let fitting =
            states.iter().filter(|state| search.matches_name(&state.spec.apex.as_name().to_string()));
        found.extend(fitting.take(search.most).map(|state| {
            let apex = &state.spec.apex;
            json!({"name": names::shown(apex), "object_type": "zone", "zone_id": names::id(apex)})
        }));
    }
    if search.records {
        for state in &states {
            search.check_time()?;
            let document = api.documents.get(&state.spec.apex);
            records(&search, request, state, &document, &mut found)?;
        }
    }
    if search.comments {
        let documents = api.documents.all();
        for state in &states {
            if let Some(document) = documents.get(&state.spec.apex) {
                comments(&search, request, &state.spec.apex, document, &mut found);
            }
        }
    }
    Ok(Value::Array(found))
}

/// Adds the records of a zone that match.
fn records(
    search: &Search,
    request: &ApiRequest,
    state: &Arc<ZoneStatus>,
    document: &ZoneDocument,
    found: &mut Vec<Value>,
) -> Result<(), Refused> {
    let apex = &state.spec.apex;
    let Some(zone) = state.zone.as_deref().filter(|_| found.len() < search.most) else { return Ok(()) };
    let parts = ShownParts {
        apex,
        caller: &request.caller,
        signed_here: state.spec.signed,
        owner: None,
        rtype: None,
        disabled: true,
    };
    let (zone_id, zone_name) = (names::id(apex), names::shown(apex));
    let mut late = Ok(());
    let mut number = 0_u32;
    parts.each(Some(zone), document, &mut |rrset| {
        number = number.wrapping_add(1);
        if number.is_multiple_of(10_000) {
            late = search.check_time();
        }
        let by_name = search.matches_name(&rrset.name);
        for record in rrset.records.iter().filter(|one| by_name || search.matches_content(&one.content)) {
            if found.len() >= search.most {
                break;
            }
            found.push(json!({
                "content": record.content, "disabled": record.disabled, "name": rrset.name,
                "object_type": "record", "ttl": rrset.ttl, "type": rrset.rtype, "zone": zone_name,
                "zone_id": zone_id,
            }));
        }
        late.is_ok() && found.len() < search.most
    });
    late
}

/// Adds the comments of a zone that match.
fn comments(
    search: &Search,
    request: &ApiRequest,
    apex: &ZoneName,
    document: &ZoneDocument,
    found: &mut Vec<Value>,
) {
    for set in document.rrsets() {
        let (Some(owner), Some(rtype)) = (set.owner(), set.rtype()) else { continue };
        if !request.caller.may(ApiRight::Read, Scope::Records(apex, owner.as_name(), rtype)) {
            continue;
        }
        let name = owner.to_string();
        let by_name = search.matches_name(&name);
        for comment in set.comments.iter().filter(|one| by_name || search.pattern.matches(&one.content)) {
            if found.len() >= search.most {
                return;
            }
            found.push(json!({
                "content": comment.content, "name": name, "object_type": "comment",
                "type": Type::to_string(&rtype), "zone": names::shown(apex), "zone_id": names::id(apex),
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(text: &str, ends: Instant) -> Search {
        let pattern = SearchPattern::new(text);
        Search { pattern, most: 1, zones: true, records: true, comments: true, ends }
    }

    #[test]
    fn a_search_that_takes_too_long_ends() {
        let now = Instant::now();
        assert_eq!(search("a", now + SEARCH_TIMEOUT).check_time(), Ok(()));
        let late = search("a", now).check_time().expect_err("too late");
        assert_eq!(late.status, StatusCode::SERVICE_UNAVAILABLE);
    }

    #[test]
    fn names_match_without_their_final_dot_and_contents_with_or_without() {
        let search = |text| search(text, Instant::now() + SEARCH_TIMEOUT);
        assert!(search("a.example").matches_name("a.example."));
        assert!(!search("a.example.").matches_name("a.example."));
        assert!(search(".").matches_name("."));
        for text in ["ns1.example", "ns1.example.", "NS1*"] {
            assert!(search(text).matches_content("ns1.example."), "{text}");
        }
    }
}
