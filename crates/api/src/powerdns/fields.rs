//! Fields of JSON objects, read as leniently as PowerDNS reads them: numbers may be strings.

use serde_json::Value;

use super::fault::Refused;

/// Returns the object in a body.
///
/// # Errors
/// [`Refused::bad_request`] for anything but JSON.
pub(super) fn body(bytes: &[u8]) -> Result<Value, Refused> {
    serde_json::from_slice(bytes).map_err(|_| Refused::bad_request())
}

/// Returns a string that must be there.
///
/// # Errors
/// It is missing, or not a string.
pub(super) fn text<'v>(object: &'v Value, key: &str) -> Result<&'v str, Refused> {
    let fault = || Refused::unfit(format!("Key '{key}' is missing or not a string"));
    object.get(key).and_then(Value::as_str).ok_or_else(fault)
}

/// Returns a string, if there is one.
pub(super) fn text_if<'v>(object: &'v Value, key: &str) -> Option<&'v str> {
    object.get(key).and_then(Value::as_str)
}

/// Returns a truth value, if there is one.
pub(super) fn flag_if(object: &Value, key: &str) -> Option<bool> {
    object.get(key).and_then(Value::as_bool)
}

/// Returns a whole number from 0 to `most`, which may be a string of digits; `None` if the key is missing.
///
/// # Errors
/// It is no such number.
pub(super) fn number_if(object: &Value, key: &str, most: u64) -> Result<Option<u64>, Refused> {
    let value = match object.get(key) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(digits)) => digits.parse().ok(),
        Some(Value::Number(number)) => number.as_u64().or_else(|| whole(number.as_f64()?)),
        Some(_) => None,
    };
    let fault = || Refused::unfit(format!("Key '{key}' is not a whole number from 0 to {most}"));
    value.filter(|value| *value <= most).map(Some).ok_or_else(fault)
}

/// Returns a number with a fraction of 0 as a whole number.
fn whole(number: f64) -> Option<u64> {
    let fits = number >= 0.0 && number <= 2f64.powi(53) && number.fract() == 0.0;
    fits.then_some(number as u64)
}

/// Returns a number that must be there.
///
/// # Errors
/// It is missing, or as [`number_if`].
pub(super) fn number(object: &Value, key: &str, most: u64) -> Result<u64, Refused> {
    let missing = || Refused::unfit(format!("Key '{key}' is missing or not an integer"));
    number_if(object, key, most)?.ok_or_else(missing)
}

/// Returns the elements of an array; `None` if the key is missing or anything else.
pub(super) fn array_if<'v>(object: &'v Value, key: &str) -> Option<&'v [Value]> {
    object.get(key).and_then(Value::as_array).map(Vec::as_slice)
}

/// Returns an array of strings; `None` if the key is missing.
///
/// # Errors
/// It is no array of strings.
pub(super) fn texts_if(object: &Value, key: &str) -> Result<Option<Vec<String>>, Refused> {
    let Some(value) = object.get(key).filter(|value| !value.is_null()) else { return Ok(None) };
    let all = value.as_array().and_then(|all| all.iter().map(|v| v.as_str().map(str::to_owned)).collect());
    all.map(Some).ok_or_else(|| Refused::unfit(format!("Key '{key}' is not an array of strings")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_may_be_strings_and_have_bounds() {
        let object =
            json!({"a": 60, "b": "60", "c": -1, "d": 4_294_967_296_u64, "e": 1.5, "f": "x", "g": 60.0});
        let of = |key| number_if(&object, key, u64::from(u32::MAX));
        assert_eq!(of("a"), Ok(Some(60)));
        assert_eq!(of("b"), Ok(Some(60)));
        assert_eq!(of("g"), Ok(Some(60)));
        assert_eq!(of("missing"), Ok(None));
        for bad in ["c", "d", "e", "f"] {
            assert!(of(bad).is_err(), "{bad}");
        }
        assert!(number(&object, "missing", 9).is_err());
    }

    #[test]
    fn arrays_of_other_things_are_no_arrays_of_strings() {
        assert_eq!(texts_if(&json!({"a": ["b"]}), "a"), Ok(Some(vec!["b".to_owned()])));
        assert!(texts_if(&json!({"a": [{"b": 1}]}), "a").is_err());
        assert!(texts_if(&json!({"a": "b"}), "a").is_err());
        assert_eq!(texts_if(&json!({}), "a"), Ok(None));
    }
}
