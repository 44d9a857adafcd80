//! Page size of the allocator's memory.
//!
//! mimalloc reserves 1 GiB at the start and requests huge pages for it, and each thread allocates in a part
//! of its own. A server with few zones would thus occupy about forty huge pages, each partly used. With small
//! pages it occupies only what it uses. Large data that is read at random (zones, the cache) requests huge
//! pages for itself; memory that the allocator reserves later, when that GiB is full, still has huge pages.

use std::ops::Range;

/// Requests small pages for the memory that the allocator has reserved so far. Without `/proc` it does
/// nothing.
pub(crate) fn use_small_pages() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
    let probe = Box::new(0u8);
    if let Some(reserved) = mapping_of(&maps, std::ptr::from_ref::<u8>(&probe).addr()) {
        prefetch::small_pages(reserved);
    }
}

/// Returns the address range of the mapping that contains `address`, from the text of `/proc/self/maps`.
fn mapping_of(maps: &str, address: usize) -> Option<Range<usize>> {
    let ranges = maps.lines().filter_map(|line| {
        let (start, end) = line.split_whitespace().next()?.split_once('-')?;
        Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
    });
    ranges.into_iter().find(|range| range.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mapping_of_an_address_is_found() {
        let maps = "00400000-0040b000 r-xp 00000000 fe:00 42   /usr/bin/nomen\n20000000000-20040000000 rw-p 00000000 00:00 0 \n\
                    7ffc0000-7ffd0000 rw-p 00000000 00:00 0   [stack]\n";
        assert_eq!(mapping_of(maps, 0x200_0000_1000), Some(0x200_0000_0000..0x200_4000_0000));
        assert_eq!(mapping_of(maps, 0x40_afff), Some(0x40_0000..0x40_b000));
        assert_eq!((mapping_of(maps, 0x40_b000), mapping_of("", 1)), (None, None));
    }
}
