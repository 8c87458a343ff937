//! Embeddings without a model: the same text gives the same vector on every machine, and texts that share words are near.
//!
//! Feature hashing (Weinberger et al. 2009): every word, and every pair of neighbours, has a place and a sign by its hash, and
//! the sum is scaled to length 1. It knows nothing of meaning. A real model's vectors take its place: see
//! [`Corpus::given`](super::Corpus::given).

/// Numbers in one such embedding.
pub const DIMENSION: usize = 64;

/// The embedding of a text: of length 1, whatever the text.
///
/// ```
/// use redfence::agents::embed;
///
/// let near = |a: &str, b: &str| embed(a).iter().zip(embed(b)).map(|(a, b)| a * b).sum::<f32>();
/// let query = "fencing tokens for late writes";
/// assert!(near(query, "late writes and fencing tokens") > near(query, "soup with beans"));
/// ```
pub fn embed(text: &str) -> Vec<f32> {
    let lower = text.to_lowercase();
    let words: Vec<&str> =
        lower.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let mut sum = vec![0.0; DIMENSION];
    for word in &words {
        add(&mut sum, word.as_bytes(), 1.0);
    }
    for pair in words.windows(2) {
        add(&mut sum, pair.join(" ").as_bytes(), 0.5);
    }
    scaled(sum)
}

fn add(sum: &mut [f32], feature: &[u8], weight: f32) {
    let hash = hash(feature);
    let place = (hash % DIMENSION as u64) as usize;
    // Signs let collisions cancel out on average.
    sum[place] += if hash >> 63 == 0 { weight } else { -weight };
}

/// FNV-1a, and the finish of MurmurHash3: the standard library's hash may change with its version.
fn hash(bytes: &[u8]) -> u64 {
    let fnv = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (fnv ^ (fnv >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}

/// A text without words, or whose words cancel out, has a direction all the same.
fn scaled(mut sum: Vec<f32>) -> Vec<f32> {
    let length = sum.iter().map(|number| number * number).sum::<f32>().sqrt();
    if length == 0.0 {
        sum[0] = 1.0;
        return sum;
    }
    sum.iter_mut().for_each(|number| *number /= length);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn likeness(a: &str, b: &str) -> f32 {
        embed(a).iter().zip(embed(b)).map(|(a, b)| a * b).sum()
    }

    proptest! {
        #[test]
        fn every_text_has_one_embedding_of_length_one(text in ".{0,200}") {
            let embedding = embed(&text);
            prop_assert_eq!(&embedding, &embed(&text));
            prop_assert_eq!(embedding.len(), DIMENSION);
            let length = embedding.iter().map(|number| number * number).sum::<f32>().sqrt();
            prop_assert!((length - 1.0).abs() < 1e-4, "{}", length);
        }
    }

    #[test]
    fn it_stays_the_same_over_versions_since_files_hold_it() {
        let embedding = embed("a frozen holder");
        let set: Vec<_> = embedding.iter().enumerate().filter(|(_, number)| **number != 0.0).collect();
        let places: Vec<_> = set.iter().map(|(place, number)| (*place, **number > 0.0)).collect();
        assert_eq!(places, STORED);
    }

    const STORED: [(usize, bool); 5] = [(1, false), (11, true), (13, false), (15, false), (57, true)];

    #[test]
    fn case_and_signs_do_not_count_and_shared_words_do() {
        assert!((likeness("Fencing, tokens!", "fencing tokens") - 1.0).abs() < 1e-5);
        let query = "late writes of a frozen holder";
        let near = likeness(query, "a frozen holder and its late writes");
        assert!(near > 0.5 && near > likeness(query, "apples in the orchard"), "{near}");
        assert_eq!(embed("")[0], 1.0);
        assert_eq!(embed(" .. "), embed(""));
    }
}
