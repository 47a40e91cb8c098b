import { createHash } from 'node:crypto';

/** A script in Lua, which Redis runs in one step. */
export interface Script {
  readonly source: string;
  readonly digest: string;
}

export function script(source: string): Script {
  return { source, digest: createHash('sha1').update(source).digest('hex') };
}

/**
 * A script that makes several calls, one after the other. ARGV: how many keys each of them has, and for each of them the number of
 * its arguments and these. Returns a list of what they return.
 *
 * @param body of one call, which has its own KEYS and ARGV and returns something.
 * @param before what it uses.
 */
export const manyTimes = (body: string, before = ''): Script =>
  script(`
local allKeys, allArgs, answers = KEYS, ARGV, {}
local KEYS, ARGV
${before}
local function call()${body}end
local at, each = 2, tonumber(allArgs[1])
for first = 1, #allKeys, each do
  KEYS, ARGV = { unpack(allKeys, first, first + each - 1) }, {}
  for i = 1, tonumber(allArgs[at]) do ARGV[i] = allArgs[at + i] end
  at = at + 1 + #ARGV
  answers[#answers + 1] = call()
end
return answers
`);

/** The time is the engine's, in milliseconds. */
export const CLOCK = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function whole(number) return string.format('%.0f', number) end
`;

/**
 * The bytes that records of one kind and one owner take in the engine. A record that is counted has an ID, and is forgotten at
 * a time. All KEYS are in one slot:
 *
 * 1. a hash: `b` bytes of all, `b:ID` of one; of a record with a name also `n:NAME` an ID, and `i:ID` a name
 * 2. a sorted set of IDs by the time at which they are forgotten
 * 3. of records that are listed, a sorted set of IDs by rank
 * 4. and more: keys of the record that the script is about, which expire with it
 */
export const ACCOUNT = `${CLOCK}
local function bytesOf(id) return tonumber(redis.call('HGET', KEYS[1], id and 'b:' .. id or 'b') or '0') end
local function isOver(limit, bytes) return bytesOf() + bytes > tonumber(limit) end
local function charge(id, bytes)
  redis.call('HINCRBY', KEYS[1], 'b', whole(bytes))
  redis.call('HINCRBY', KEYS[1], 'b:' .. id, whole(bytes))
end
local function forget(id)
  local bytes = bytesOf(id)
  if bytes > 0 then redis.call('HINCRBY', KEYS[1], 'b', whole(-bytes)) end
  local name = redis.call('HGET', KEYS[1], 'i:' .. id)
  if name and redis.call('HGET', KEYS[1], 'n:' .. name) == id then redis.call('HDEL', KEYS[1], 'n:' .. name) end
  redis.call('HDEL', KEYS[1], 'b:' .. id, 'i:' .. id)
  for i = 2, math.min(3, #KEYS) do redis.call('ZREM', KEYS[i], id) end
end
local function sweep()
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', whole(now))) do forget(id) end
end
local function keep(id, ms)
  redis.call('ZADD', KEYS[2], whole(now + ms), id)
  for i = 4, #KEYS do redis.call('PEXPIRE', KEYS[i], ms) end
  for i = 1, math.min(3, #KEYS) do
    if redis.call('PTTL', KEYS[i]) < ms + 1000 then redis.call('PEXPIRE', KEYS[i], whole(ms + 60000)) end
  end
end
`;
