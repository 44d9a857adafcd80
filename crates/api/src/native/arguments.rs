//! The arguments of a request, checked against those that its route declares.

use serde_json::{Map, Value};
use wire::name::Name;
use wire::{ViewName, ZoneName};

use config::zone_name::zone_name;
use wording::did_you_mean;

use super::route::{Argument, ArgumentKind, Route};
use crate::reply::ApiFault;
use crate::request::ApiRequest;

/// The arguments of a request.
#[derive(Debug, Clone, Default)]
pub(super) struct Arguments {
    /// The zone in the path.
    pub(super) zone: Option<ZoneName>,
    values: Map<String, Value>,
}

/// Parses the name of a zone, `ZONE` or `ZONE@VIEW`, in this field of a request.
///
/// # Errors
/// Status 400.
pub(crate) fn zone_of(text: &str, field: &str) -> Result<ZoneName, ApiFault> {
    let fault = |why: String| ApiFault::bad_request(why).field(field);
    let (name, view) = ViewName::split(text).map_err(|why| fault(format!("`{text}`: {why}")))?;
    let name = zone_name(name).map_err(|why| fault(why.to_string()))?;
    Ok(ZoneName::in_view(name.as_name().to_lower().as_lower(), view.as_ref()))
}

impl Arguments {
    /// Reads the arguments of a request.
    ///
    /// # Errors
    /// Status 400 with the name of the argument.
    pub(super) fn read(
        route: &Route,
        segments: &[&str],
        request: &ApiRequest,
    ) -> Result<Arguments, ApiFault> {
        let zone = route.zone(segments).map(|zone| zone_of(zone, "zone")).transpose()?;
        let mut values = Map::new();
        match route.has_query() {
            true => {
                for (name, value) in &request.query {
                    let argument = declared(route, name)?;
                    values.insert(name.clone(), of_query(argument, value)?);
                }
            }
            // A request without arguments may have no body.
            false if request.body.is_empty() => {}
            false => {
                let body: Map<String, Value> = request.json()?;
                for (name, value) in body {
                    let argument = declared(route, &name)?;
                    if !value.is_null() {
                        values.insert(name, of_body(argument, value)?);
                    }
                }
            }
        }
        let missing =
            route.arguments.iter().find(|argument| argument.required && !values.contains_key(argument.name));
        match missing {
            Some(argument) => {
                Err(ApiFault::bad_request(format!("`{}` is missing", argument.name)).field(argument.name))
            }
            None => Ok(Arguments { zone, values }),
        }
    }

    /// Returns the text of an argument.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.values.get(name)?.as_str().map(str::to_owned)
    }

    /// Returns the text of an argument that the route requires.
    pub(super) fn given(&self, name: &str) -> String {
        self.text(name).unwrap_or_default()
    }

    /// Returns whether a flag is set.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.values.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// Returns a number.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.values.get(name)?.as_u64()
    }

    /// Returns a list of texts.
    pub(super) fn texts(&self, name: &str) -> Vec<String> {
        let all = self.values.get(name).and_then(Value::as_array).into_iter().flatten();
        all.filter_map(|text| text.as_str().map(str::to_owned)).collect()
    }

    /// Returns a value as it is.
    pub(super) fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// Returns the name of the zone in the path, as commands name it.
    pub(super) fn zone_text(&self) -> String {
        self.zone.as_ref().map(ToString::to_string).unwrap_or_default()
    }

    /// Parses the text of an argument.
    ///
    /// # Errors
    /// Status 400: the text is not what is `wanted`.
    pub(super) fn parsed<T: std::str::FromStr>(
        &self,
        name: &str,
        wanted: &str,
    ) -> Result<Option<T>, ApiFault> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(ApiFault::bad_request(format!("`{text}` is not {wanted}")).field(name)),
        }
    }
}

/// Returns the declaration of an argument.
fn declared(route: &Route, name: &str) -> Result<&'static Argument, ApiFault> {
    let found = route.arguments.iter().find(|argument| argument.name == name);
    found.ok_or_else(|| {
        let hint = match did_you_mean(name, route.arguments.iter().map(|argument| argument.name)) {
            Some(near) => format!("; did you mean `{near}`?"),
            None => String::new(),
        };
        ApiFault::bad_request(format!("there is no argument `{name}` here{hint}")).field(name)
    })
}

/// Returns the value of a parameter of the query string.
fn of_query(argument: &Argument, text: &str) -> Result<Value, ApiFault> {
    let value = match argument.kind {
        ArgumentKind::Flag if text.is_empty() => Value::Bool(true),
        ArgumentKind::Flag => text.parse().map(Value::Bool).unwrap_or_default(),
        ArgumentKind::Number => text.parse::<u64>().map(Value::from).unwrap_or_default(),
        ArgumentKind::Texts => text.split(',').map(Value::from).collect(),
        ArgumentKind::Text | ArgumentKind::Words(_) | ArgumentKind::Objects(_) => text.into(),
    };
    of_body(argument, value)
}

/// Checks the value of a member of the body.
fn of_body(argument: &Argument, value: Value) -> Result<Value, ApiFault> {
    let all_texts = |list: &Vec<Value>| list.iter().all(Value::is_string);
    let fault = |wanted: String| {
        let message = format!("`{}` is not {wanted}", argument.name);
        Err(ApiFault::bad_request(message).field(argument.name))
    };
    match argument.kind {
        ArgumentKind::Text if !value.is_string() => fault("a text".into()),
        ArgumentKind::Flag if !value.is_boolean() => fault("true or false".into()),
        ArgumentKind::Number if !value.is_u64() => fault("a number from 0 on".into()),
        ArgumentKind::Texts if !value.as_array().is_some_and(all_texts) => fault("a list of texts".into()),
        ArgumentKind::Objects(_) if !value.is_array() => fault("a list".into()),
        ArgumentKind::Words(words) if !value.as_str().is_some_and(|word| words.contains(&word)) => {
            fault(format!("one of {}", words.join(", ")))
        }
        _ => Ok(value),
    }
}

/// Returns whether a text contains another, whatever the case of their letters.
pub(super) fn contains(text: &str, part: &str) -> bool {
    let (text, part) = (text.as_bytes(), part.as_bytes());
    part.is_empty() || text.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part))
}

/// Parses a domain name.
///
/// # Errors
/// Status 400.
pub(super) fn name_of(text: &str, field: &str) -> Result<wire::NameBuf, ApiFault> {
    wire::NameBuf::from_text(text.as_bytes(), Some(Name::ROOT)).map_err(|fault| {
        ApiFault::bad_request(format!("`{text}` is not a domain name: {fault}")).field(field)
    })
}
