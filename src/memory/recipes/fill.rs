//! One filler for all who miss.

use super::super::{Edit, SharedMemory, Strategy, UpdateError};

/// What is at this key; if nothing is, what `fill` makes, which then stays there. Of all who miss at the same time, one fills and
/// the others wait for it: for what is dear to make, such as an embedding, an index or the answer of a model.
///
/// The filler holds the lock of the key. If it dies or loses its lease another fills; both may then have run `fill`, and only one
/// result is kept, which all get.
///
/// # Errors
/// As [`SharedMemory::update`] under [`Strategy::Locked`].
pub async fn get_or_fill<E, F>(
    memory: &SharedMemory,
    key: &str,
    mut fill: impl FnMut() -> F,
) -> Result<Vec<u8>, UpdateError<E>>
where
    F: Future<Output = Result<Vec<u8>, E>>,
{
    loop {
        // Who finds it there needs no lock.
        if let Some(value) = memory.get(key).await? {
            return Ok(value);
        }
        let filled = memory.update(key, Strategy::Locked, |there| {
            let filling = there.is_none().then(&mut fill);
            async move {
                match filling {
                    None => Ok(Edit::Keep),
                    Some(filling) => Ok(Edit::Set(filling.await?)),
                }
            }
        });
        filled.await?;
    }
}
