//! Other clients' scripts: Lua 5.1, as in Redis.
//!
//! How far it goes. A script gets `KEYS`, `ARGV`, `redis.call`, `redis.pcall`, `redis.error_reply`,
//! `redis.status_reply`, `redis.sha1hex`, and the libraries `string`, `table` and `math` with Lua's base functions.
//! Values are converted by the rules of Redis, errors are worded as Redis 7.0 words them, and `math.random` gives the
//! numbers that it gives there, the same in each life of a node. A script runs alone: nobody sees half of what it does.
//!
//! There is no `cjson`, `cmsgpack`, `bit` and `struct`, no coroutine and no `loadstring`; `redis.log` says nothing,
//! `redis.setresp(3)` is refused, and `pairs` finds nothing in a library or in `_G` (they are shields around the real
//! tables). Iteration over `pairs` is in the interpreter's order, not Redis'.
//!
//! A script that uses up its instructions or its memory is ended, whatever it has done by then stays done. One call
//! into the string library is not counted, so a pattern made to backtrack can still take long: this node is for
//! tests, and for people who trust their scripts.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

use bytes::Bytes;
use mlua::chunk::ChunkMode;
use mlua::{Function, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Table, Value, VmState};

use super::commands::dispatch_from_script;
use super::reply::{Fault, Reply};
use super::session::Session;
use super::state::{REDIS_VERSION, State};

/// Instructions that one script may take: about a second.
const BUDGET: u32 = 50_000_000;
/// Instructions between two looks at the budget.
const STRIDE: u32 = 10_000;
/// Memory of one interpreter, in bytes.
const MEMORY: usize = 64 * 1024 * 1024;
/// Compiled scripts kept by one interpreter.
const MAX_COMPILED: usize = 256;
/// Elements, and levels, of one script's answer. A table may contain itself.
const MAX_ELEMENTS: usize = 1024 * 1024;
const MAX_DEPTH: usize = 64;

/// One script to run.
pub(crate) struct Job<'a> {
    pub(crate) digest: &'a str,
    pub(crate) text: &'a [u8],
    pub(crate) keys: &'a [Bytes],
    pub(crate) argv: &'a [Bytes],
    pub(crate) read_only: bool,
}

/// Runs a script.
pub(crate) fn run(state: &mut State, session: &mut Session, job: &Job<'_>) -> Result<Reply, Fault> {
    with_engine(|engine| engine.run(state, session, job))
}

/// Whether this is a script at all.
pub(crate) fn check(text: &[u8]) -> Result<(), Fault> {
    with_engine(|engine| engine.compile(text).map(drop))
}

thread_local! {
    // One interpreter for each thread, for all nodes: interpreters stay on their thread, and scripts leave no trace.
    static ENGINE: RefCell<Option<Engine>> = const { RefCell::new(None) };
}

fn with_engine<T>(job: impl FnOnce(&mut Engine) -> Result<T, Fault>) -> Result<T, Fault> {
    ENGINE.with(|slot| {
        let mut slot =
            slot.try_borrow_mut().map_err(|_| Fault::new("ERR a script cannot run inside a script"))?;
        let engine = match &mut *slot {
            Some(engine) => engine,
            empty => empty.insert(Engine::new().map_err(broken)?),
        };
        let outcome = job(engine);
        if engine.spent.get() {
            *slot = None;
        }
        outcome
    })
}

fn broken(error: mlua::Error) -> Fault {
    format!("ERR the script interpreter failed: {error}").into()
}

/// An error of a command, on its way through Lua.
#[derive(Debug)]
struct Raised(Fault);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.0)
    }
}

impl std::error::Error for Raised {}

/// What an error value says to a script, or to the client.
fn text_of(problem: &Value) -> String {
    match problem {
        Value::Table(table) => {
            let text = table.raw_get::<Option<mlua::LuaString>>("err").ok().flatten();
            text.map_or_else(|| "ERR unknown error".to_owned(), |text| text.to_string_lossy())
        }
        Value::Error(error) => match error.downcast_ref::<Raised>() {
            Some(raised) => raised.to_string(),
            None => format!("ERR {}", first_line(&error.to_string())),
        },
        Value::String(text) => format!("ERR {}", text.to_string_lossy()),
        other => format!("ERR {}", other.to_string().unwrap_or_else(|_| other.type_name().to_owned())),
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// The numbers that `math.random` gives: the generator of POSIX' drand48, as in Redis. Each node has one, which begins
/// where that of Redis begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dice(u64);

impl Default for Dice {
    fn default() -> Self {
        Self(0x1234_ABCD_330E)
    }
}

impl Dice {
    const fn seeded(seed: u32) -> Self {
        Self(((seed as u64) << 16) | 0x330E)
    }

    /// A number from 0 up to but not including 1.
    fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & 0xFFFF_FFFF_FFFF;
        let top = i32::MAX;
        f64::from(u32::try_from(self.0 >> 17).unwrap_or(0) % top.unsigned_abs()) / f64::from(top)
    }
}

/// An interpreter.
struct Engine {
    lua: Lua,
    runner: Function,
    compiled: HashMap<String, Function>,
    dice: Rc<Cell<Dice>>,
    /// Whether a script was ended by force: then the interpreter ends with it.
    spent: Rc<Cell<bool>>,
}

impl Engine {
    fn new() -> mlua::Result<Self> {
        let lua = Lua::new_with(StdLib::STRING | StdLib::TABLE | StdLib::MATH, LuaOptions::default())?;
        lua.set_memory_limit(MEMORY)?;
        let dice = Rc::new(Cell::new(Dice::default()));
        let native = natives(&lua, &dice)?;
        let runner = lua.load(include_str!("prelude.lua")).set_name("@prelude").call(native)?;
        Ok(Self { lua, runner, compiled: HashMap::new(), dice, spent: Rc::default() })
    }

    fn compile(&self, text: &[u8]) -> Result<Function, Fault> {
        let chunk = self.lua.load(without_shebang(text)).set_name("@user_script").set_mode(ChunkMode::Text);
        chunk.into_function().map_err(|error| {
            let why = match &error {
                mlua::Error::SyntaxError { message, .. } => message.clone(),
                other => other.to_string(),
            };
            format!("ERR Error compiling script (new function): {}", first_line(&why)).into()
        })
    }

    fn function(&mut self, job: &Job<'_>) -> Result<Function, Fault> {
        if let Some(function) = self.compiled.get(job.digest) {
            return Ok(function.clone());
        }
        let function = self.compile(job.text)?;
        if self.compiled.len() >= MAX_COMPILED {
            self.compiled.clear();
        }
        self.compiled.insert(job.digest.to_owned(), function.clone());
        Ok(function)
    }

    fn run(&mut self, state: &mut State, session: &mut Session, job: &Job<'_>) -> Result<Reply, Fault> {
        let function = self.function(job)?;
        self.dice.set(state.dice);
        self.limit().map_err(broken)?;
        let outcome = self.call(function, state, session, job);
        self.lua.remove_hook();
        state.dice = self.dice.get();
        if self.spent.get() {
            return Err(Fault::new("ERR Script killed: it took more instructions than this node allows"));
        }
        // Lua 5.1 does not collect when it runs out of memory: better a new interpreter than a full one.
        self.spent.set(self.lua.used_memory() > MEMORY / 2);
        outcome
    }

    /// Ends the script when its instructions are used up. From then on at each instruction, so that no `pcall` of the
    /// script can catch them all.
    fn limit(&self) -> mlua::Result<()> {
        let (taken, spent) = (Cell::new(0_u32), Rc::clone(&self.spent));
        let over = || mlua::Error::runtime("Script killed");
        self.lua.set_hook(HookTriggers::new().every_nth_instruction(STRIDE), move |lua, _| {
            taken.set(taken.get() + STRIDE);
            if taken.get() < BUDGET {
                return Ok(VmState::Continue);
            }
            spent.set(true);
            lua.set_hook(HookTriggers::new().every_nth_instruction(1), move |_, _| Err(over()))?;
            Err(over())
        })
    }

    fn call(
        &self,
        script: Function,
        state: &mut State,
        session: &mut Session,
        job: &Job<'_>,
    ) -> Result<Reply, Fault> {
        let host = RefCell::new((state, session));
        let ask = |lua: &Lua, args: MultiValue| -> Result<Reply, Fault> {
            let words = words(lua, args)?;
            let mut host =
                host.try_borrow_mut().map_err(|_| Fault::new("ERR a command cannot run inside a command"))?;
            let (state, session) = &mut *host;
            dispatch_from_script(state, session, &words, job.read_only)
        };
        let outcome = self.lua.scope(|scope| {
            let call = scope.create_function(|lua, args: MultiValue| match ask(lua, args) {
                Ok(Reply::Error(fault)) | Err(fault) => Err(mlua::Error::external(Raised(fault))),
                Ok(reply) => to_lua(lua, reply),
            })?;
            let protected = scope.create_function(|lua, args: MultiValue| {
                to_lua(lua, ask(lua, args).unwrap_or_else(Reply::Error))
            })?;
            let (keys, argv) = (strings(&self.lua, job.keys)?, strings(&self.lua, job.argv)?);
            let (done, value): (bool, Value) = self.runner.call((script, call, protected, keys, argv))?;
            if done {
                return Ok(to_reply(&value, &mut Size::default()));
            }
            let (text, line) = blamed(&value);
            let place = line.map(|line| format!(", on @user_script:{line}.")).unwrap_or_default();
            Ok(Reply::Error(format!("{text} script: {}{place}", job.digest).into()))
        });
        match outcome {
            Ok(Reply::Error(fault)) => Err(fault),
            Ok(reply) => Ok(reply),
            Err(error) => {
                self.spent.set(self.spent.get() || matches!(error, mlua::Error::MemoryError(_)));
                Err(broken(error))
            }
        }
    }
}

fn without_shebang(text: &[u8]) -> &[u8] {
    if !text.starts_with(b"#!lua") {
        return text;
    }
    // The line break stays, so that line numbers stay right.
    text.iter().position(|&byte| byte == b'\n').map_or(&[], |end| &text[end..])
}

fn strings(lua: &Lua, words: &[Bytes]) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(words.len(), 0)?;
    for word in words {
        table.raw_push(lua.create_string(word)?)?;
    }
    Ok(table)
}

/// What the prelude cannot do in Lua.
fn natives(lua: &Lua, dice: &Rc<Cell<Dice>>) -> mlua::Result<Table> {
    let native = lua.create_table()?;
    native.set("version", REDIS_VERSION)?;
    native.set("random", lua.create_function(random(Rc::clone(dice)))?)?;
    let seeded = Rc::clone(dice);
    let randomseed = move |_: &Lua, seed: f64| {
        seeded.set(Dice::seeded(seed as i32 as u32));
        Ok(())
    };
    native.set("randomseed", lua.create_function(randomseed)?)?;
    native.set("sha1hex", lua.create_function(sha1hex)?)?;
    native.set("told", lua.create_function(|lua, problem: Value| error_table(lua, &text_of(&problem)))?)?;
    native.set("blame", lua.create_function(blame)?)?;
    Ok(native)
}

fn random(dice: Rc<Cell<Dice>>) -> impl Fn(&Lua, (Option<f64>, Option<f64>)) -> mlua::Result<f64> {
    move |_, bounds| {
        let mut current = dice.get();
        let roll = current.roll();
        dice.set(current);
        let (low, high) = match bounds {
            (None, _) => return Ok(roll),
            (Some(high), None) => (1.0, high.trunc()),
            (Some(low), Some(high)) => (low.trunc(), high.trunc()),
        };
        if low > high {
            return Err(mlua::Error::runtime("bad argument to 'random' (interval is empty)"));
        }
        Ok((roll * (high - low + 1.0)).floor() + low)
    }
}

fn sha1hex(lua: &Lua, args: MultiValue) -> mlua::Result<String> {
    let text = match <[Value; 1]>::try_from(args.into_vec()) {
        Ok([value]) => lua.coerce_string(value)?,
        Err(_) => return Err(mlua::Error::external(Raised(Fault::new("ERR wrong number of arguments")))),
    };
    let bytes = text.map(|text| text.as_bytes().to_vec()).unwrap_or_default();
    Ok(sha1_smol::Sha1::from(bytes).digest().to_string())
}

fn error_table(lua: &Lua, text: &str) -> mlua::Result<Table> {
    lua.create_table_from([("err", text)])
}

/// Called where an error was raised, with the stack as it was: notes what it says and the line of the script.
fn blame(lua: &Lua, problem: Value) -> mlua::Result<Table> {
    let line = (0..16).find_map(|level| {
        let found = lua.inspect_stack(level, |frame| {
            let in_script = frame.source().source.is_some_and(|source| source == "@user_script");
            frame.current_line().filter(|_| in_script)
        });
        found.flatten()
    });
    let note = error_table(lua, &text_of(&problem))?;
    note.raw_set("line", line)?;
    Ok(note)
}

fn blamed(value: &Value) -> (String, Option<usize>) {
    let line = value.as_table().and_then(|table| table.raw_get::<Option<usize>>("line").ok().flatten());
    (text_of(value), line)
}

/// The words of a command, from the arguments of `redis.call`.
fn words(lua: &Lua, args: MultiValue) -> Result<Vec<Bytes>, Fault> {
    if args.is_empty() {
        return Err(Fault::new("ERR Please specify at least one argument for this redis lib call"));
    }
    args.into_iter().map(|arg| word(lua, arg)).collect()
}

fn word(lua: &Lua, value: Value) -> Result<Bytes, Fault> {
    match value {
        Value::String(text) => Ok(Bytes::copy_from_slice(&text.as_bytes())),
        // As `%.17g` writes it: no exponent below 10^17.
        Value::Integer(number) if number.unsigned_abs() < 100_000_000_000_000_000 => {
            Ok(number.to_string().into())
        }
        Value::Integer(number) => seventeen_digits(lua, number as f64),
        Value::Number(number) => seventeen_digits(lua, number),
        _ => Err(Fault::new("ERR Lua redis lib command arguments must be strings or integers")),
    }
}

fn seventeen_digits(lua: &Lua, number: f64) -> Result<Bytes, Fault> {
    let format = || lua.globals().get::<Table>("string")?.get::<Function>("format");
    let text =
        format().and_then(|format| format.call::<mlua::LuaString>(("%.17g", number))).map_err(broken)?;
    Ok(Bytes::copy_from_slice(&text.as_bytes()))
}

/// A command's answer as a script sees it.
fn to_lua(lua: &Lua, reply: Reply) -> mlua::Result<Value> {
    let array = |items: Vec<Reply>| -> mlua::Result<Value> {
        let table = lua.create_table_with_capacity(items.len(), 0)?;
        for (at, item) in items.into_iter().enumerate() {
            table.raw_set(at + 1, to_lua(lua, item)?)?;
        }
        Ok(Value::Table(table))
    };
    match reply {
        Reply::Status(text) => Ok(Value::Table(lua.create_table_from([("ok", &*text)])?)),
        Reply::Error(fault) => Ok(Value::Table(error_table(lua, &fault.0)?)),
        Reply::Int(number) => Ok(Value::Number(number as f64)),
        Reply::Bulk(data) => Ok(Value::String(lua.create_string(&data)?)),
        Reply::Verbatim(text) => Ok(Value::String(lua.create_string(text)?)),
        Reply::Null | Reply::NullArray => Ok(Value::Boolean(false)),
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) | Reply::Sequence(items) => array(items),
        Reply::Map(pairs) => array(pairs.into_iter().flat_map(|(key, value)| [key, value]).collect()),
    }
}

/// How large an answer has become.
#[derive(Default)]
struct Size {
    elements: usize,
    depth: usize,
}

/// A script's answer as the client sees it.
fn to_reply(value: &Value, size: &mut Size) -> Reply {
    size.elements += 1;
    match value {
        Value::Boolean(true) => Reply::Int(1),
        Value::Integer(number) => Reply::Int(*number),
        // Towards zero: scripts that mean a fraction send text.
        Value::Number(number) => Reply::Int(*number as i64),
        Value::String(text) => Reply::bulk(text.as_bytes()),
        Value::Table(table) => table_to_reply(table, size),
        _ => Reply::Null,
    }
}

fn table_to_reply(table: &Table, size: &mut Size) -> Reply {
    let field = |name: &str| table.raw_get::<Value>(name).ok().filter(|value| !value.is_nil());
    if let Some(Value::String(text)) = field("err") {
        return Reply::Error(text.to_string_lossy().into());
    }
    if let Some(Value::String(text)) = field("ok") {
        return Reply::Status(text.to_string_lossy().into());
    }
    if size.depth >= MAX_DEPTH {
        return Reply::Error(Fault::new("ERR reached lua stack limit"));
    }
    size.depth += 1;
    let mut items = Vec::new();
    while size.elements < MAX_ELEMENTS {
        match table.raw_get::<Value>(items.len() + 1) {
            Ok(Value::Nil) | Err(_) => break,
            Ok(item) => items.push(to_reply(&item, size)),
        }
    }
    size.depth -= 1;
    Reply::Array(items)
}
