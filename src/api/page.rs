//! Lists in pages: `?limit=&cursor=` → `{"items": […], "next": "…"|null}`.
//!
//! A cursor names the last item seen, so that what comes and goes in between shifts nothing.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::problem::Problem;

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1000;

/// Which part of a list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PageParams {
    /// Items at most.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<usize>,
    /// `next` of the page before.
    cursor: Option<String>,
}

/// A part of a list.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// In order.
    pub items: Vec<T>,
    /// The cursor of the next page; null at the end.
    pub next: Option<String>,
}

/// In which order a list is paged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// By key.
    Key,
    /// As it came: by rank.
    AsGiven,
}

impl PageParams {
    /// As another API's parameters say it.
    pub fn new(limit: usize, cursor: Option<String>) -> Self {
        Self { limit: Some(limit), cursor }
    }

    /// Cuts the asked page out of a whole list.
    ///
    /// # Errors
    /// 422 for a limit out of range and for a cursor that no page gave.
    pub fn cut<T>(
        &self,
        mut items: Vec<T>,
        order: Order,
        key: impl Fn(&T) -> &str,
    ) -> Result<Page<T>, Problem> {
        let limit = self.limit()?;
        if order == Order::Key {
            items.sort_by(|a, b| key(a).cmp(key(b)));
        }
        let start = match self.cursor.as_deref() {
            None | Some("") => 0,
            Some(cursor) => {
                let (offset, last) = decode(cursor).ok_or_else(no_cursor)?;
                match order {
                    Order::Key => items.partition_point(|i| key(i) <= last.as_str()),
                    Order::AsGiven => items.iter().position(|i| key(i) == last).map_or(offset, |at| at + 1),
                }
            }
        };
        let total = items.len();
        let items: Vec<T> = items.into_iter().skip(start).take(limit).collect();
        let end = start.saturating_add(items.len());
        let next = items.last().filter(|_| end < total).map(|last| encode(end, key(last)));
        Ok(Page { items, next })
    }

    /// How many items the first page needs, one more than it shows; none for a later page, which needs what is before.
    ///
    /// # Errors
    /// 422 for a limit out of range.
    pub fn first(&self) -> Result<Option<usize>, Problem> {
        let limit = self.limit()?;
        Ok(self.cursor.as_ref().is_none_or(String::is_empty).then_some(limit + 1))
    }

    fn limit(&self) -> Result<usize, Problem> {
        let limit = self.limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MAX_LIMIT).contains(&limit) {
            return Err(Problem::invalid("?limit", format!("limit is {limit}; it must be 1 to {MAX_LIMIT}")));
        }
        Ok(limit)
    }

    /// For a list that is read by numeric ids: the id where the asked page begins, and how many items to read, one
    /// more than the page shows.
    ///
    /// # Errors
    /// 422 for a limit out of range and for a cursor that no page gave.
    pub fn keys(&self) -> Result<(Option<i64>, usize), Problem> {
        let limit = self.limit()?;
        let after = match self.cursor.as_deref() {
            None | Some("") => None,
            Some(cursor) => {
                let (_, id) = decode(cursor).ok_or_else(no_cursor)?;
                Some(id.parse().map_err(|_| no_cursor())?)
            }
        };
        Ok((after, limit + 1))
    }
}

impl<T> Page<T> {
    /// Of items that were read as [`PageParams::keys`] says.
    pub fn of_keys(mut items: Vec<T>, read: usize, id: impl Fn(&T) -> i64) -> Self {
        let more = items.len() >= read;
        items.truncate(read - 1);
        let next = items.last().filter(|_| more).map(|last| encode(0, &id(last).to_string()));
        Self { items, next }
    }
}

fn no_cursor() -> Problem {
    Problem::invalid("?cursor", "the cursor is not one that a page gave as `next`")
}

fn encode(offset: usize, key: &str) -> String {
    BASE64.encode(format!("{offset}:{key}"))
}

fn decode(cursor: &str) -> Option<(usize, String)> {
    let text = String::from_utf8(BASE64.decode(cursor).ok()?).ok()?;
    let (offset, key) = text.split_once(':')?;
    Some((offset.parse().ok()?, key.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(limit: usize, cursor: Option<String>, items: &[&str], order: Order) -> Page<String> {
        let items = items.iter().map(ToString::to_string).collect();
        PageParams { limit: Some(limit), cursor }.cut(items, order, String::as_str).unwrap()
    }

    #[test]
    fn pages_follow_each_other_without_gap_or_repeat() {
        for order in [Order::Key, Order::AsGiven] {
            let (mut seen, mut cursor) = (Vec::new(), None);
            loop {
                let p = page(2, cursor, &["a", "b", "c", "d", "e"], order);
                seen.extend(p.items);
                cursor = p.next;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(seen, ["a", "b", "c", "d", "e"]);
        }
    }

    #[test]
    fn an_item_that_went_or_came_shifts_nothing() {
        let first = page(2, None, &["a", "b", "d", "e"], Order::Key);
        let second = page(2, first.next, &["a", "aa", "c", "d", "e"], Order::Key);
        assert_eq!(second.items, ["c", "d"]);
    }

    #[test]
    fn a_full_last_page_has_no_next() {
        assert!(page(2, None, &["a", "b"], Order::Key).next.is_none());
        assert!(page(2, None, &[], Order::Key).next.is_none());
    }

    #[test]
    fn pages_by_id_follow_each_other_up_and_down() {
        let ids = [9, 7, 5, 3, 1];
        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let params = PageParams { limit: Some(2), cursor };
            let (before, read) = params.keys().unwrap();
            let found = ids.into_iter().filter(|id| before.is_none_or(|b| *id < b)).take(read).collect();
            let page = Page::of_keys(found, read, |id| *id);
            seen.extend(page.items);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen, ids);
        let words = PageParams { limit: None, cursor: Some(encode(1, "word")) };
        assert_eq!(words.keys().unwrap_err().status, 422);
    }

    #[test]
    fn limits_and_cursors_out_of_thin_air_are_refused() {
        for (limit, cursor) in [(Some(0), None), (Some(1001), None), (None, Some("!")), (None, Some("YWJj"))]
        {
            let params = PageParams { limit, cursor: cursor.map(ToOwned::to_owned) };
            let refused = params.cut(vec!["a".to_owned()], Order::Key, String::as_str).unwrap_err();
            assert_eq!(refused.status, 422);
        }
    }
}
