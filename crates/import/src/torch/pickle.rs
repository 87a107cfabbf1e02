//! Reader of pickled state dicts, as `torch.save` writes them. It is a stack machine that knows the
//! instructions and the few functions that such a file needs, and never calls any code.
//!
//! This module owns the rejection of everything else: other globals, shared values whose size would
//! explode, and values that are not tensors.

use super::dtype::DType;
use std::collections::BTreeMap;

/// A tensor in a storage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tensor {
    /// Element type.
    pub dtype: DType,
    /// The archive entry of the storage, such as `data/0`.
    pub key: String,
    /// Index of the first element in the storage.
    pub offset: i64,
    /// One size per dimension.
    pub sizes: Vec<i64>,
    /// Distance between neighbours along each dimension, in elements.
    pub strides: Vec<i64>,
}

#[derive(Clone, Debug)]
enum Value {
    None,
    Bool,
    Int(i64),
    Text(String),
    Tuple(Vec<Value>),
    List(Vec<Value>),
    Dict(Vec<(Value, Value)>),
    Global(String),
    Storage(DType, String),
    Tensor(Tensor),
    Mark,
}

/// Greatest number of values within a value, so that nested references cannot double its size
/// again and again.
const LARGEST: usize = 256;

/// Greatest total number of values that are stored in the memo and fetched from it.
const MAX_MEMO_VALUES: usize = 1 << 22;

/// Greatest number of values on the stack.
const DEEPEST: usize = 1 << 20;

impl Value {
    fn size(&self) -> usize {
        match self {
            Value::Tuple(l) | Value::List(l) => 1 + l.iter().map(Value::size).sum::<usize>(),
            Value::Dict(l) => 1 + l.iter().map(|(k, v)| k.size() + v.size()).sum::<usize>(),
            Value::Text(t) => 1 + t.len() / 32,
            _ => 1,
        }
    }

    fn ints(&self) -> Option<Vec<i64>> {
        let Value::Tuple(l) = self else { return None };
        l.iter().map(|v| if let Value::Int(n) = v { Some(*n) } else { None }).collect()
    }
}

fn small(v: &Value) -> Result<(), String> {
    if v.size() > LARGEST { Err("a value in it is too large".into()) } else { Ok(()) }
}

/// Returns the element type of a storage class.
fn storage(global: &str) -> Option<DType> {
    Some(match global.strip_prefix("torch.")?.strip_suffix("Storage")? {
        "Float" => DType::F32,
        "Double" => DType::F64,
        "Half" => DType::F16,
        "BFloat16" => DType::Bf16,
        "Long" => DType::I64,
        "Int" => DType::I32,
        "Short" => DType::I16,
        "Char" => DType::I8,
        "Byte" => DType::U8,
        "Bool" => DType::Bool,
        _ => return None,
    })
}

struct Machine<'b> {
    rest: &'b [u8],
    stack: Vec<Value>,
    memo: BTreeMap<u32, Value>,
    /// Number of values stored in the memo and fetched from it so far.
    kept: usize,
}

type PickleResult<T> = Result<T, String>;

impl Machine<'_> {
    fn take(&mut self, n: usize) -> PickleResult<&[u8]> {
        if n > self.rest.len() {
            return Err("it ends within an instruction".into());
        }
        let (a, b) = self.rest.split_at(n);
        self.rest = b;
        Ok(a)
    }

    fn number(&mut self, n: usize) -> PickleResult<u64> {
        Ok(self.take(n)?.iter().rev().fold(0, |a, b| a << 8 | u64::from(*b)))
    }

    fn line(&mut self) -> PickleResult<String> {
        let n = self.rest.iter().position(|b| *b == b'\n').ok_or("it ends within a line")?;
        let text = String::from_utf8_lossy(self.take(n)?).into_owned();
        self.take(1)?;
        Ok(text)
    }

    fn push(&mut self, v: Value) -> PickleResult<()> {
        if self.stack.len() >= DEEPEST {
            return Err("its stack is too deep".into());
        }
        self.stack.push(v);
        Ok(())
    }

    fn pop(&mut self) -> PickleResult<Value> {
        match self.stack.pop() {
            None | Some(Value::Mark) => Err("an instruction has too few operands".into()),
            Some(v) => Ok(v),
        }
    }

    /// Pops everything above the last mark, and the mark.
    fn marked(&mut self) -> PickleResult<Vec<Value>> {
        let at = self.stack.iter().rposition(|v| matches!(v, Value::Mark)).ok_or("there is no mark")?;
        let out = self.stack.split_off(at + 1);
        self.stack.pop();
        Ok(out)
    }

    fn tuple(&mut self, list: Vec<Value>) -> PickleResult<()> {
        let v = Value::Tuple(list);
        small(&v)?;
        self.push(v)
    }

    fn keep(&mut self, size: usize) -> PickleResult<()> {
        self.kept += size;
        if self.kept > MAX_MEMO_VALUES { Err("too many values are shared".into()) } else { Ok(()) }
    }

    fn remember(&mut self, at: u64) -> PickleResult<()> {
        let v = self.stack.last().cloned().ok_or("its stack is empty")?;
        // A list or dict may change later, so a copy in the memo would be wrong. A mark takes its
        // place; fetching it is an error.
        let v = match v {
            Value::List(_) | Value::Dict(_) => Value::Mark,
            v => v,
        };
        small(&v)?;
        self.keep(v.size())?;
        self.memo.insert(u32::try_from(at).map_err(|_| "a number is out of range")?, v);
        Ok(())
    }

    fn recall(&mut self, at: u64) -> PickleResult<()> {
        match u32::try_from(at).ok().and_then(|at| self.memo.get(&at).cloned()) {
            Some(Value::Mark) => Err("a list or dict in it is shared".into()),
            Some(v) => {
                self.keep(v.size())?;
                self.push(v)
            }
            None => Err("it uses a shared value that it has not stored".into()),
        }
    }

    fn set(&mut self, pairs: Vec<Value>) -> PickleResult<()> {
        pairs.iter().try_for_each(small)?;
        let Some(Value::Dict(d)) = self.stack.last_mut() else {
            return Err("entries are added to a value that is not a dict".into());
        };
        let mut pairs = pairs.into_iter();
        while let (Some(k), Some(v)) = (pairs.next(), pairs.next()) {
            d.push((k, v));
        }
        Ok(())
    }

    fn append(&mut self, values: Vec<Value>) -> PickleResult<()> {
        values.iter().try_for_each(small)?;
        let Some(Value::List(l)) = self.stack.last_mut() else {
            return Err("elements are added to a value that is not a list".into());
        };
        l.extend(values);
        Ok(())
    }

    /// Executes a call of one of the known functions.
    fn call(&mut self) -> PickleResult<()> {
        let (args, f) = (self.pop()?, self.pop()?);
        let (Value::Tuple(args), Value::Global(f)) = (args, f) else {
            return Err("it calls a value that is not a function".into());
        };
        let out = match (f.as_str(), &args[..]) {
            ("collections.OrderedDict", []) => Value::Dict(vec![]),
            ("torch._utils._rebuild_parameter", [t @ Value::Tensor(_), ..]) => t.clone(),
            (
                "torch._utils._rebuild_tensor_v2",
                [Value::Storage(dtype, key), Value::Int(offset), sizes, strides, ..],
            ) => {
                let (Some(sizes), Some(strides)) = (sizes.ints(), strides.ints()) else {
                    return Err("a tensor without sizes".into());
                };
                let sound = sizes.len() == strides.len() && sizes.iter().chain(&strides).all(|n| *n >= 0);
                if !sound || *offset < 0 {
                    return Err("a tensor has invalid sizes".into());
                }
                Value::Tensor(Tensor { dtype: *dtype, key: key.clone(), offset: *offset, sizes, strides })
            }
            (other, _) => return Err(format!("it calls {other}, which kbc does not allow")),
        };
        self.push(out)
    }

    /// Resolves a persistent id, which refers to a storage outside the pickle.
    fn outside(&mut self) -> PickleResult<()> {
        let v = self.pop()?;
        let Value::Tuple(l) = &v else { return Err("it refers to a value that is not a storage".into()) };
        match &l[..] {
            [Value::Text(what), Value::Global(class), Value::Text(key), ..] if what == "storage" => {
                let dtype = storage(class).ok_or_else(|| format!("kbc does not support {class}"))?;
                self.push(Value::Storage(dtype, key.clone()))
            }
            _ => Err("it refers to a value that is not a storage".into()),
        }
    }

    /// Executes the pickle to its end and returns the value.
    fn run(&mut self) -> PickleResult<Value> {
        loop {
            let op = self.take(1)?[0];
            match op {
                0x80 => {
                    self.number(1)?;
                }
                // Frames of later protocols.
                0x95 => {
                    self.number(8)?;
                }
                b'}' => self.push(Value::Dict(vec![]))?,
                b']' => self.push(Value::List(vec![]))?,
                b')' => self.push(Value::Tuple(vec![]))?,
                b'(' => self.push(Value::Mark)?,
                b'N' => self.push(Value::None)?,
                0x88 | 0x89 => self.push(Value::Bool)?,
                b'J' => {
                    let n = self.number(4)? as u32 as i32;
                    self.push(Value::Int(n.into()))?;
                }
                b'K' => {
                    let n = self.number(1)?;
                    self.push(Value::Int(n as i64))?;
                }
                b'M' => {
                    let n = self.number(2)?;
                    self.push(Value::Int(n as i64))?;
                }
                0x8a => {
                    let n = self.number(1)? as usize;
                    if n > 8 {
                        return Err("a number is too large".into());
                    }
                    let raw = self.number(n)?;
                    let shift = 64 - 8 * n as u32;
                    let value = if n == 0 { 0 } else { (raw << shift) as i64 >> shift };
                    self.push(Value::Int(value))?;
                }
                b'X' | 0x8c => {
                    let n = self.number(if op == b'X' { 4 } else { 1 })? as usize;
                    let text = String::from_utf8_lossy(self.take(n)?).into_owned();
                    self.push(Value::Text(text))?;
                }
                b'c' => {
                    let (module, name) = (self.line()?, self.line()?);
                    self.push(Value::Global(format!("{module}.{name}")))?;
                }
                0x93 => {
                    let (name, module) = (self.pop()?, self.pop()?);
                    let (Value::Text(module), Value::Text(name)) = (module, name) else {
                        return Err("a global without a name".into());
                    };
                    self.push(Value::Global(format!("{module}.{name}")))?;
                }
                b'q' => {
                    let at = self.number(1)?;
                    self.remember(at)?;
                }
                b'r' => {
                    let at = self.number(4)?;
                    self.remember(at)?;
                }
                0x94 => self.remember(self.memo.len() as u64)?,
                b'h' => {
                    let at = self.number(1)?;
                    self.recall(at)?;
                }
                b'j' => {
                    let at = self.number(4)?;
                    self.recall(at)?;
                }
                b't' => {
                    let list = self.marked()?;
                    self.tuple(list)?;
                }
                0x85..=0x87 => {
                    let n = usize::from(op - 0x84);
                    let mut list = (0..n).map(|_| self.pop()).collect::<PickleResult<Vec<_>>>()?;
                    list.reverse();
                    self.tuple(list)?;
                }
                b'Q' => self.outside()?,
                b'R' => self.call()?,
                b's' => {
                    let (v, k) = (self.pop()?, self.pop()?);
                    self.set(vec![k, v])?;
                }
                b'u' => {
                    let list = self.marked()?;
                    self.set(list)?;
                }
                b'a' => {
                    let v = self.pop()?;
                    self.append(vec![v])?;
                }
                b'e' => {
                    let list = self.marked()?;
                    self.append(list)?;
                }
                // The state of an object (`_metadata` of a state dict) does not affect tensors.
                b'b' => {
                    self.pop()?;
                    if !matches!(self.stack.last(), Some(Value::Dict(_) | Value::Tensor(_))) {
                        return Err("its state is not a dict".into());
                    }
                }
                b'.' => return self.pop(),
                other => {
                    return Err(format!("it has the instruction {other:#04x}, which no state dict needs"));
                }
            }
        }
    }
}

/// Returns the tensors of a state dict, by name.
///
/// # Errors
/// Returns a sentence that describes what else the pickle contains.
pub fn tensors(bytes: &[u8]) -> Result<BTreeMap<String, Tensor>, String> {
    let mut m = Machine { rest: bytes, stack: vec![], memo: BTreeMap::new(), kept: 0 };
    let Value::Dict(list) = m.run()? else { return Err("it is not a dict of tensors".into()) };
    let mut out = BTreeMap::new();
    for (k, v) in list {
        match (k, v) {
            (Value::Text(k), Value::Tensor(t)) => {
                out.insert(k, t);
            }
            (Value::Text(k), _) => return Err(format!("its value `{k}` is not a tensor")),
            _ => return Err("one of its keys is not a string".into()),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A state dict with one parameter, in the instructions that Python's pickle uses
    /// in protocol 2.
    fn sample() -> Vec<u8> {
        let mut out = b"\x80\x02ccollections\nOrderedDict\nq\x00)Rq\x01X\x02\x00\x00\x00w1q\x02".to_vec();
        out.extend(b"ctorch._utils\n_rebuild_parameter\nq\x03(ctorch._utils\n_rebuild_tensor_v2\nq\x04((");
        out.extend(b"X\x07\x00\x00\x00storageq\x05ctorch\nFloatStorage\nq\x06X\x01\x00\x00\x000q\x07X\x03\x00\x00\x00cpuq\x08K\x08tq\x09Q");
        out.extend(b"K\x00K\x02K\x04\x86q\x0aK\x04K\x01\x86q\x0b\x89h\x00)Rq\x0ctq\x0dRq\x0e\x88h\x00)Rq\x0ftq\x10Rq\x11s}q\x12X\x09\x00\x00\x00_metadatah\x00)Rsb.");
        out
    }

    #[test]
    fn a_state_dict_is_read() {
        let all = tensors(&sample()).expect("a state dict");
        let t =
            Tensor { dtype: DType::F32, key: "0".into(), offset: 0, sizes: vec![2, 4], strides: vec![4, 1] };
        assert_eq!(all, BTreeMap::from([("w1".into(), t)]));
    }

    #[test]
    fn anything_else_is_refused() {
        let os = b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.";
        assert_eq!(tensors(os), Err("it calls os.system, which kbc does not allow".into()));
        // Tuples of tuples of tuples.
        let mut bomb = b"\x80\x02)".to_vec();
        (0..40u8).for_each(|i| bomb.extend([b'q', i, b'h', i, 0x86]));
        bomb.push(b'.');
        assert!(tensors(&bomb).expect_err("a bomb").contains("too large"));
        let whole = sample();
        for n in 0..whole.len() {
            assert!(tensors(&whole[..n]).is_err());
            for b in [0u8, b'(', b'R', b'Q', b'.', 0xff, b't'] {
                let mut other = whole.clone();
                other[n] = b;
                let _ = tensors(&other);
            }
        }
    }
}
