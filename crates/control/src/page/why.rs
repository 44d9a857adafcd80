//! The page `/why`: a form with client, name and type, and which rule decides about such a query, as `nomen
//! ctl policy test` shows it. It changes nothing and sends no query.

use std::net::IpAddr;

use super::html::Html;
use super::view::head;

/// What the form asks for, as written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WhyForm {
    pub(super) name: String,
    pub(super) client: String,
    pub(super) rtype: String,
}

/// Longest value of a field, in bytes: every name is shorter.
const MAX_FIELD: usize = 1024;

impl WhyForm {
    /// Reads the query of a URL, which a browser makes of the form. Other fields are left out.
    pub(super) fn read(query: &str) -> WhyForm {
        let mut form = WhyForm::default();
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let field = match key {
                "name" => &mut form.name,
                "client" => &mut form.client,
                "type" => &mut form.rtype,
                _ => continue,
            };
            *field = decoded(value.get(..MAX_FIELD.min(value.len())).unwrap_or_default());
        }
        form
    }

    /// Returns the client's address, if there is one.
    pub(super) fn address(&self) -> Result<Option<IpAddr>, String> {
        if self.client.is_empty() {
            return Ok(None);
        }
        self.client.parse().map(Some).map_err(|_| format!("`{}` is not an address", self.client))
    }
}

/// Decodes a value of a form (application/x-www-form-urlencoded): `+` is a space, `%` precedes two digits.
fn decoded(value: &str) -> String {
    let (mut out, mut rest) = (Vec::new(), value.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        (rest, _) = match (first, byte) {
            (b'%', Some(byte)) => (behind.get(2..).unwrap_or_default(), out.push(byte)),
            (b'+', _) => (behind, out.push(b' ')),
            _ => (behind, out.push(*first)),
        };
    }
    String::from_utf8_lossy(&out).trim().to_owned()
}

/// Returns the page with the form, and the answer if there is one: a fault, or what decides.
pub(super) fn page(form: &WhyForm, answer: Option<&Result<String, String>>) -> String {
    let mut html = Html::default();
    head(&mut html, "");
    html.markup("<h1>Why was this blocked?</h1>\n<form action=\"/why\" method=\"get\">\n");
    let fields = [
        ("<p><label>Name <input name=\"name\" required value=\"", &form.name),
        ("<p><label>Type <input name=\"type\" placeholder=\"A\" value=\"", &form.rtype),
        ("<p><label>Client <input name=\"client\" placeholder=\"192.0.2.1\" value=\"", &form.client),
    ];
    for (markup, value) in fields {
        html.markup(markup).text(value).markup("\"></label></p>\n");
    }
    html.markup("<p><button>Show the rule</button></p>\n</form>\n");
    match answer {
        Some(Ok(text)) => html.heading("Answer").paragraph(text),
        Some(Err(fault)) => html.heading("Answer").table(&["what"]).row(true, &[fault]).end_table(),
        None => &mut html,
    };
    html.paragraph(
        "Rules about the client and the name are shown. Those about aliases, addresses and name servers depend on \
         the answer. Without a client, groups and rules about clients do not count.",
    );
    html.markup("<p><a href=\"/\">Status</a></p>\n</body></html>\n");
    html.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_decoded() {
        let form = WhyForm::read("name=%61ds.Example%2e&client=2001%3Adb8%3A%3A1&type=+HTTPS&x=y&broken");
        let wanted = ["ads.Example.", "2001:db8::1", "HTTPS"].map(str::to_owned);
        assert_eq!([form.name.clone(), form.client.clone(), form.rtype.clone()], wanted);
        assert_eq!(form.address(), Ok(Some("2001:db8::1".parse().expect("an address"))));
        assert_eq!(WhyForm::read("name=%4&type=%zz&client=").name, "%4");
        assert_eq!(WhyForm::read("client=").address(), Ok(None));
        assert!(WhyForm::read("client=x").address().is_err());
        assert_eq!(WhyForm::read(&format!("name={}", "a".repeat(5000))).name.len(), MAX_FIELD);
    }

    #[test]
    fn nothing_that_was_written_is_markup() {
        let evil = "%22%3E%3Cscript%3Ealert('x')%3C%2Fscript%3E";
        let form = WhyForm::read(&format!("name={evil}&client={evil}&type={evil}"));
        let fault = form.address().map(|_| String::new());
        for answer in [None, Some(fault), Some(Ok(form.name.clone()))] {
            let page = page(&form, answer.as_ref());
            assert!(!page.contains("<script") && !page.contains("\"><s"), "{page}");
            assert!(page.contains("value=\"&quot;&gt;&lt;script&gt;"), "{page}");
        }
    }
}
