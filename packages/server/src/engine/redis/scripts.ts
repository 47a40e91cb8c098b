import { ProtocolError } from '@parlance/protocol';
import { MAX_CHANGES, MAX_LOG } from '../engine.js';
import { RELEASED_MS } from '../session-rules.js';
import { ACCOUNT, CLOCK, manyTimes, script } from './lua.js';

/** The table itself expires an hour after the last renewal, in milliseconds. */
const TABLE_TTL_MS = 3_600_000;

/**
 * The commands that a node gives to Redis. For leases, there is one key, a hash from the incarnation of a node to the
 * end of its lease and its record (`1700000000000:…`), so that one script sees all nodes, in Redis Cluster too.
 *
 * Its field '' has the version of the nodes, and the time before which no lease ends: only few renewals look at all nodes.
 */
const LEASES = `${CLOCK}
local function left(lease)
  local at = string.find(lease, ':', 1, true)
  local ends = at and tonumber(string.sub(lease, 1, at - 1))
  if not ends or ends <= now then return nil end
  return whole(ends - now), string.sub(lease, at + 1)
end
local function state()
  local version, sweepAt = string.match(redis.call('HGET', KEYS[1], '') or '', '^(%S+) (%d+)$')
  return version or '', tonumber(sweepAt or '0')
end
local function setState(version, sweepAt)
  redis.call('HSET', KEYS[1], '', version .. ' ' .. whole(sweepAt))
end
local function newVersion(old)
  local version = time[1] .. '.' .. time[2]
  return version == old and version .. '+' or version
end
`;

/**
 * KEYS: the table. ARGV: incarnation, record, lease in ms, the version that it knows or ''. Returns the time, 1 if the node was
 * not there, and the version; if that is another one, or the node was not there, also three values for each node.
 */
export const RENEW = script(`${LEASES}
local version, sweepAt = state()
local before = version
local ends = now + ARGV[3]
local held = redis.call('HGET', KEYS[1], ARGV[1])
local isChanged = version == '' or not held or string.sub(held, (string.find(held, ':', 1, true) or 0) + 1) ~= ARGV[2]
redis.call('HSET', KEYS[1], ARGV[1], whole(ends) .. ':' .. ARGV[2])
redis.call('PEXPIRE', KEYS[1], ${TABLE_TTL_MS})
local nextAt = math.min(sweepAt, ends)
if now >= sweepAt then
  nextAt = ends
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    local ms = left(all[i + 1])
    if ms then nextAt = math.min(nextAt, now + ms)
    elseif all[i] ~= '' then
      redis.call('HDEL', KEYS[1], all[i])
      isChanged = true
    end
  end
end
if isChanged then version = newVersion(before) end
if isChanged or nextAt ~= sweepAt then setState(version, nextAt) end
local found = { whole(now), held and '0' or '1', version }
if version == ARGV[4] and held then return found end
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local ms, record = left(all[i + 1])
  if ms then
    found[#found + 1] = all[i]
    found[#found + 1] = ms
    found[#found + 1] = record
  end
end
return found
`);

/**
 * KEYS: the table. ARGV: incarnation; the one that asks, if it has announced itself. Returns the rest of the lease in ms and
 * the record, or nothing; 'forgotten' if the one that asks is not there.
 */
export const FIND = script(`${LEASES}
if ARGV[2] ~= '' and not redis.call('HGET', KEYS[1], ARGV[2]) then return { 'forgotten' } end
local lease = redis.call('HGET', KEYS[1], ARGV[1])
if not lease then return {} end
local ms, record = left(lease)
if not ms then return {} end
return { ms, record }
`);

/** KEYS: the table. Returns the incarnations of nodes whose leases are not over. */
export const NODES = script(`${LEASES}
local found = {}
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if left(all[i + 1]) then found[#found + 1] = all[i] end
end
return found
`);

/** KEYS: the table. ARGV: incarnation. */
export const WITHDRAW = script(`${LEASES}
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then return 0 end
if redis.call('HLEN', KEYS[1]) == 1 then return redis.call('DEL', KEYS[1]) end
local version, sweepAt = state()
setState(newVersion(version), sweepAt)
return 1
`);

/**
 * The entries of a table are a hash from their keys to `holder record`, and a stream of changes whose IDs count from 1-0 on. The field
 * '' of the hash is the number of the last change. Both keys are in one slot.
 *
 * KEYS: hash, stream. ARGV: key; `holder record`, or '' to remove it; expected holder, '' for none, or '*' for any.
 * Returns 1 or 0, and the number of the last change. An entry that is there already is not written again, so that this
 * may be repeated.
 */
export const PUT_ENTRY = script(`
local held = redis.call('HGET', KEYS[1], ARGV[1])
local holder = held and string.match(held, '^[^ ]*') or ''
if (held or '') == ARGV[2] then return { '1', redis.call('HGET', KEYS[1], '') or '0' } end
if ARGV[3] ~= '*' and ARGV[3] ~= holder then
  return { '0', redis.call('HGET', KEYS[1], '') or '0' }
end
if ARGV[2] == '' then redis.call('HDEL', KEYS[1], ARGV[1])
else redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end
local number = redis.call('HINCRBY', KEYS[1], '', 1)
if number == 1 then redis.call('DEL', KEYS[2]) end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ${MAX_LOG}, number .. '-0', 'k', ARGV[1], 'e', ARGV[2])
return { '1', tostring(number) }
`);

/** KEYS: hash, stream. Returns the fields of the hash and their values. */
export const ENTRIES = script(`return redis.call('HGETALL', KEYS[1])`);

/**
 * KEYS: hash, stream. ARGV: the number of the last change that is known. Returns 'gap', or number, key and entry of each
 * further change.
 */
export const CHANGES = script(`
local last = tonumber(redis.call('HGET', KEYS[1], '') or '0')
local after = tonumber(ARGV[1])
if after == last then return {} end
if after > last then return { 'gap' } end
local found = redis.call('XRANGE', KEYS[2], '(' .. ARGV[1] .. '-0', '+', 'COUNT', ${MAX_CHANGES})
if #found == 0 or found[1][1] ~= string.format('%.0f', after + 1) .. '-0' then return { 'gap' } end
local changes = {}
for _, change in ipairs(found) do
  changes[#changes + 1] = string.match(change[1], '^%d+')
  changes[#changes + 1] = change[2][2]
  changes[#changes + 1] = change[2][4]
end
return changes
`);

/**
 * A session that has moved is a hash of its own: `n`, the node that has it, and `e`, how often it has moved. A recorded
 * session has more fields: `q`, the number of the last write of its node, `b`, the bytes of those that the server
 * names, and these.
 *
 * KEYS: the hash. ARGV: expected node and number, the new node, TTL in ms, 'claim' or ''. Returns node and number that are
 * written then. A claim fails also if there is no session, and may be repeated until the new node writes; it returns all
 * names and values, or nothing.
 */
export const TAKE_SESSION = script(`
local found = redis.call('HMGET', KEYS[1], 'n', 'e', 'q')
local epoch = string.format('%.0f', ARGV[2] + 1)
local isClaim = ARGV[5] == 'claim'
if found[1] ~= ARGV[3] or found[2] ~= epoch or found[3] then
  local isExpected = found[1] == ARGV[1] and found[2] == ARGV[2]
  if not isExpected and (found[1] or isClaim) then return isClaim and {} or found end
  redis.call('HSET', KEYS[1], 'n', ARGV[3], 'e', epoch)
  redis.call('HDEL', KEYS[1], 'q')
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return isClaim and redis.call('HGETALL', KEYS[1]) or { ARGV[3], epoch }
`);

/** KEYS: the hash. ARGV: names of its fields. Returns node and number, and the values of the names. */
export const READ_SESSION = script(`return redis.call('HMGET', KEYS[1], 'n', 'e', unpack(ARGV))`);

/** KEYS: the hash. ARGV: node, number, TTL in ms. Returns 1, or 0 if another node has the session. */
export const KEEP_SESSION = manyTimes(`
local found = redis.call('HMGET', KEYS[1], 'n', 'e')
if found[1] and (found[1] ~= ARGV[1] or found[2] ~= ARGV[2]) then return 0 end
if not found[1] then redis.call('HSET', KEYS[1], 'n', ARGV[1], 'e', ARGV[2]) end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
`);

/**
 * KEYS: the hash. ARGV: node, number of moves, number of the write, TTL in ms, 'first', 'replace' or '', the bytes that it may
 * have or '', the number of values that follow for names and values to be set, the number of the last write that was answered;
 * then these, and names to be removed. Returns 'written', 'fenced', 'gone', 'behind', or the bytes that it would need.
 */
export const WRITE_SESSION = manyTimes(`
local found = redis.call('HMGET', KEYS[1], 'n', 'e', 'q')
local isOwn = found[1] == ARGV[1] and found[2] == ARGV[2]
if ARGV[5] == 'replace' then
  if found[1] and not isOwn and tonumber(found[2]) >= tonumber(ARGV[2]) then return 'fenced' end
  if not isOwn or tonumber(found[3] or '0') < tonumber(ARGV[3]) then
    redis.call('DEL', KEYS[1])
    found = {}
  end
elseif found[1] and not isOwn then return 'fenced'
elseif not found[3] and ARGV[5] ~= 'first' and redis.call('HLEN', KEYS[1]) <= 2 then return 'gone'
elseif tonumber(found[3] or '0') < tonumber(ARGV[8]) then return 'behind' end
if not found[3] or tonumber(found[3]) < tonumber(ARGV[3]) then
  local set = 8 + tonumber(ARGV[7])
  local before = tonumber(redis.call('HGET', KEYS[1], 'b') or '0')
  local bytes = before
  local function takeOff(first, last, step)
    for from = first, last, 1000 do
      local names = {}
      for i = from, math.min(from + 999, last), step do names[#names + 1] = ARGV[i] end
      for i, old in ipairs(redis.call('HMGET', KEYS[1], unpack(names))) do
        if old then bytes = bytes - #names[i] - #old end
      end
    end
  end
  takeOff(9, set, 2)
  takeOff(set + 1, #ARGV, 1)
  for i = 9, set do bytes = bytes + #ARGV[i] end
  if ARGV[6] ~= '' and bytes > before and bytes > tonumber(ARGV[6]) then
    return { string.format('%.0f', bytes) }
  end
  redis.call('HSET', KEYS[1], 'n', ARGV[1], 'e', ARGV[2], 'q', ARGV[3], 'b', string.format('%.0f', bytes))
  for i = 9, set, 1000 do
    redis.call('HSET', KEYS[1], unpack(ARGV, i, math.min(i + 999, set)))
  end
  for i = set + 1, #ARGV, 1000 do
    redis.call('HDEL', KEYS[1], unpack(ARGV, i, math.min(i + 999, #ARGV)))
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 'written'
`);

/**
 * KEYS: of the account of a principal. ARGV: session, bytes, bytes of all, TTL in ms. Returns the bytes of the session, or ''.
 */
export const RESERVE_CAPACITY = manyTimes(
  `
sweep()
local old = bytesOf(ARGV[1])
local more = math.max(0, ARGV[2] - old)
if more > 0 and isOver(ARGV[3], more) then return '' end
charge(ARGV[1], more)
keep(ARGV[1], tonumber(ARGV[4]))
return whole(old + more)
`,
  ACCOUNT,
);

/** KEYS: of the account of a principal. ARGV: session. */
export const RELEASE_CAPACITY = script(`${ACCOUNT}
forget(ARGV[1])
return 1
`);

/**
 * Of a recorded session that was claimed, the number of moves stays for a while. Otherwise a node that stood still
 * since before the claim could not tell that the session is not its own any more.
 *
 * KEYS: the hash. ARGV: node, number.
 */
export const RELEASE_SESSION = script(`
local found = redis.call('HMGET', KEYS[1], 'n', 'e', 'b')
if found[1] == ARGV[1] and found[2] == ARGV[2] then
  redis.call('DEL', KEYS[1])
  if found[3] and tonumber(found[2]) > 0 then
    redis.call('HSET', KEYS[1], 'n', '', 'e', found[2])
    redis.call('PEXPIRE', KEYS[1], ${RELEASED_MS})
  end
end
return 1
`);

/** KEYS: a hash. Returns how long it is kept in ms, then its fields and their values; the first one is -2 if there is none. */
export const WHOLE_HASH = script(`
local all = redis.call('HGETALL', KEYS[1])
table.insert(all, 1, string.format('%.0f', redis.call('PTTL', KEYS[1])))
return all
`);

/** KEYS: of the account of a principal. Returns session, bytes and time in ms for each of those that are not over. */
export const CAPACITIES = script(`${ACCOUNT}
local found = {}
local kept = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. whole(now), '+inf', 'WITHSCORES')
for i = 1, #kept, 2 do
  found[#found + 1] = kept[i]
  found[#found + 1] = whole(bytesOf(kept[i]))
  found[#found + 1] = whole(kept[i + 1] - now)
end
return found
`);

/** KEYS: the key of addresses. ARGV: its value if it has none. Returns its value. */
export const SHARE_KEY = script(`
redis.call('SET', KEYS[1], ARGV[1], 'NX')
return { redis.call('GET', KEYS[1]) }
`);

/** The answer of a script. @throws {ProtocolError} `connection_failed` if it is not a list. */
export function listOf(reply: unknown): string[] {
  if (Array.isArray(reply)) return reply.map(String);
  throw new ProtocolError('connection_failed', 'Redis answered a script with something that is not a list');
}
