//! The unified difference of two texts, bounded and printable.

use similar::{Algorithm, TextDiff};

use super::{FileChange, visible};

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// Fills in the text of a change, taking its length from `left`; whether something was left out.
pub(super) fn show(change: &mut FileChange, a: &[u8], b: &[u8], left: &mut usize) -> bool {
    let (Some(old), Some(new)) = (plain(a), plain(b)) else {
        change.note = Some("binary".into());
        return false;
    };
    let diff = TextDiff::configure().algorithm(Algorithm::Myers).diff_lines(old, new);
    let mut unified = diff.unified_diff();
    let text = visible::lines(&unified.context_radius(CONTEXT).to_string());
    let cut = text.len() > *left;
    if cut {
        // A cut within a line could show half of it as the whole.
        let end = text.floor_char_boundary(*left);
        let end = text[..end].rfind('\n').map_or(0, |at| at + 1);
        change.note = Some(format!("cut after {end} of {} bytes", text.len()));
        change.text = Some(text[..end].to_owned());
        *left = 0;
    } else {
        *left -= text.len();
        change.text = Some(text);
    }
    cut
}

/// Text, if it is text: UTF-8 without NUL.
fn plain(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}
