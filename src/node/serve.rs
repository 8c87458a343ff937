//! One connection, over any byte stream.

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::bus::{BACKLOG, Message};
use super::reply::{Fault, Reply};
use super::request::{ProtocolError, Requests};
use super::session::Session;
use super::{EmbeddedNode, commands};

/// Answers waiting to be sent, in bytes. Above this nothing more is read from the connection.
const MAX_WAITING: usize = 16 * 1024 * 1024;

/// Bytes asked of the stream at once.
const READ: usize = 16 * 1024;

/// Removes a connection's traces when its future ends or is dropped.
struct Guest<'a> {
    node: &'a EmbeddedNode,
    session: Session,
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        self.node.state().forget(&mut self.session);
    }
}

/// Bytes under way in either direction.
#[derive(Default)]
struct Buffers {
    input: BytesMut,
    requests: Requests,
    output: BytesMut,
}

/// Answers requests until the stream ends, the client quits or is killed, or `stop`.
pub(crate) async fn serve<S>(
    node: &EmbeddedNode,
    stream: S,
    address: String,
    stop: &CancellationToken,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (sender, mut messages) = mpsc::channel(BACKLOG);
    let kill = stop.child_token();
    let mut guest = Guest { node, session: node.welcome(address, sender, kill.clone()) };
    let mut buffers = Buffers::default();
    let (mut reader, mut writer) = tokio::io::split(stream);
    loop {
        let Buffers { input, output, .. } = &mut buffers;
        let waiting = !output.is_empty();
        if guest.session.closing && !waiting {
            return writer.shutdown().await;
        }
        let room = output.len() < MAX_WAITING;
        input.reserve(READ);
        tokio::select! {
            biased;
            () = kill.cancelled() => return Ok(()),
            sent = writer.write_buf(output), if waiting => match sent? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                _ if output.is_empty() => writer.flush().await?,
                _ => {}
            },
            Some(message) = messages.recv(), if room => {
                deliver(&guest.session, message, &mut messages, output)?;
                node.settle().await?;
            }
            got = reader.read_buf(input), if room && !guest.session.closing => {
                if got? == 0 {
                    return Ok(());
                }
                answer(node, &mut guest.session, &mut buffers)?;
                node.settle().await?;
            }
        }
    }
}

fn encode(reply: Reply, session: &Session, output: &mut BytesMut) -> io::Result<()> {
    reply.encode(session.resp, output).map_err(|error| io::Error::other(error.to_string()))
}

/// Queues one published message and those right behind it.
fn deliver(
    session: &Session,
    first: Message,
    more: &mut mpsc::Receiver<Message>,
    output: &mut BytesMut,
) -> io::Result<()> {
    let mut next = Some(first);
    while let Some(message) = next {
        encode(message.into_reply(), session, output)?;
        next = if output.len() < MAX_WAITING { more.try_recv().ok() } else { None };
    }
    Ok(())
}

/// Answers every whole request that has come in, under one lock.
fn answer(node: &EmbeddedNode, session: &mut Session, buffers: &mut Buffers) -> io::Result<()> {
    let mut state = node.state();
    while !session.closing {
        match buffers.requests.next(&mut buffers.input) {
            Ok(None) => break,
            Ok(Some(args)) => {
                state.space.begin(node.now());
                let reply = commands::dispatch(&mut state, session, &args);
                node.log(state.space.take_effects())?;
                encode(reply, session, &mut buffers.output)?;
            }
            Err(ProtocolError(text)) => {
                session.closing = true;
                let fault = Fault::from(format!("ERR Protocol error: {text}"));
                encode(Reply::Error(fault), session, &mut buffers.output)?;
            }
        }
    }
    Ok(())
}
