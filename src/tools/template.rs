//! URI templates (RFC 6570), as far as it must be known which URIs one may have made.

use regex::RegexBuilder;

/// Longer templates make nothing.
const LONGEST: usize = 2_000;
/// Bytes of a compiled template.
const MOST: usize = 1 << 20;

/// Whether a template may have made a URI.
#[must_use]
pub fn fits(template: &str, uri: &str) -> bool {
    let literal = template.split('{').next().unwrap_or_default();
    if template.len() > LONGEST || !uri.starts_with(literal) {
        return false;
    }
    let Some(pattern) = pattern(template) else { return false };
    let compiled = RegexBuilder::new(&pattern).size_limit(MOST).build();
    compiled.is_ok_and(|pattern| pattern.is_match(uri))
}

/// None: it is no template.
fn pattern(template: &str) -> Option<String> {
    let (mut pattern, mut rest) = ("^".to_owned(), template);
    while let Some((literal, more)) = rest.split_once('{') {
        let (inner, more) = more.split_once('}')?;
        pattern.push_str(&regex::escape(literal));
        pattern.push_str(match inner.chars().next()? {
            '+' => ".+",
            '#' => "(#.*)?",
            '.' => r"(\.[^/?#]*)?",
            '/' => "(/[^?#]*)?",
            ';' => "(;[^/?#]*)?",
            '?' => r"(\?[^#]*)?",
            '&' => "(&[^#]*)?",
            // Several are joined by commas.
            _ if inner.ends_with('*') => "[^?#]+",
            _ => "[^/?#]+",
        });
        rest = more;
    }
    Some(format!("{pattern}{}$", regex::escape(rest)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::fits;

    #[test]
    fn a_template_fits_what_it_may_have_made() {
        for (template, uri, is) in [
            ("test://template/{id}/data", "test://template/123/data", true),
            ("test://template/{id}/data", "test://template/1/2/data", false),
            ("test://template/{id}/data", "test://template/123/data/more", false),
            ("file:///{+path}", "file:///a/b/c.txt", true),
            ("file:///{path}", "file:///a/b/c.txt", false),
            ("db://t{/parts*}{?limit,offset}", "db://t/a/b?limit=3", true),
            ("db://t{/parts*}{?limit,offset}", "db://t", true),
            ("db://t{/parts*}{?limit,offset}", "db://tx", false),
            ("a.b://{x}", "aXb://1", false),
            ("plain://x", "plain://x", true),
            ("plain://{x", "plain://x", false),
        ] {
            assert_eq!(fits(template, uri), is, "{template} {uri}");
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(template in "\\PC{0,60}", uri in "\\PC{0,60}") {
            let literal = template.split('{').next().unwrap_or_default();
            prop_assert!(!fits(&template, &uri) || uri.starts_with(literal));
        }

        #[test]
        fn what_is_filled_in_fits(value in "[A-Za-z0-9._~%-]{1,20}") {
            let uri = format!("s://{value}/x/{value}");
            prop_assert!(fits("s://{a}/x/{b}", &uri), "{}", uri);
        }
    }
}
