import { ACCOUNT, CLOCK, script } from '../redis/lua.js';
import { PAGE_SIZE, READ_SIZE } from './logs.js';

/**
 * Kept replies in Redis. All that belongs to one owner is in one slot, so that one script sees the owner's bounds and the
 * reply. KEYS of the scripts about one reply are first those of {@link ACCOUNT}, then its own:
 *
 * 1. also `l`, the last rank given
 * 2. (the times at which they are forgotten)
 * 3. a rank is the time at which the reply began, and there are never two of the same
 * 4. the reply, a hash: `h` head, `n` parts, `s` bytes of them, `c` bytes charged, `t` written at, `f` followed at; its
 *    writer's node `o` and epoch `g`, and the request that it replies to `r`;
 *    and of its end `e` the time, `w` who has ended it, `z` why, `x` the failure, `y` metadata
 * 5. its parts, a string: each after its length as a varint
 * 6. a sorted set of places in that string, `part:offset` by part: of every 32nd part, and after every 4 KiB
 * 7. a sorted set of metadata, `part:bytes` by part
 */

/** Places that are looked at to find the end of what is read: enough for 256 parts. */
const PLACES = 9;

const WRITER = `${ACCOUNT}
local function refusal(why) return why == 'stopped' and why or 'ended' end
`;

/**
 * ARGV: ID, head, name with '=' before it or '', lifetime in ms, charge, bounds of replies and bytes of the owner, node,
 * epoch, source.
 */
export const OPEN = script(`${ACCOUNT}
sweep()
if redis.call('EXISTS', KEYS[4]) == 1 then return 'done' end
if redis.call('ZCARD', KEYS[3]) >= tonumber(ARGV[6]) then return 'too_many_replies' end
if isOver(ARGV[7], ARGV[5]) then return 'over_budget' end
redis.call('HSET', KEYS[4], 'h', ARGV[2], 'n', 0, 's', 0, 'c', ARGV[5], 't', whole(now),
  'o', ARGV[8], 'g', ARGV[9], 'r', ARGV[10])
charge(ARGV[1], ARGV[5])
if ARGV[3] ~= '' then
  local name = string.sub(ARGV[3], 2)
  redis.call('HSET', KEYS[1], 'n:' .. name, ARGV[1], 'i:' .. ARGV[1], name)
end
local rank = math.max(now, tonumber(redis.call('HGET', KEYS[1], 'l') or '0') + 1)
redis.call('HSET', KEYS[1], 'l', whole(rank))
redis.call('ZADD', KEYS[3], whole(rank), ARGV[1])
keep(ARGV[1], tonumber(ARGV[4]))
return 'done'
`);

/** ARGV: ID, node, epoch, lifetime in ms. Returns an outcome, and after 'done' parts and bytes. */
export const CLAIM = script(`${ACCOUNT}
local found = redis.call('HMGET', KEYS[4], 'n', 's', 'e', 'z', 'g', 'o')
if not found[1] then return { 'gone' } end
local before, epoch = tonumber(found[5] or '0'), tonumber(ARGV[3])
if before > epoch or (before == epoch and found[6] ~= ARGV[2]) then return { 'ended' } end
if found[3] and found[4] ~= 'orphaned' then return { found[4] == 'given_up' and found[4] or 'over' } end
if tonumber(found[2]) > 0 and redis.call('STRLEN', KEYS[5]) ~= tonumber(found[2]) then return { 'gone' } end
redis.call('HDEL', KEYS[4], 'e', 'w', 'z', 'x', 'y')
redis.call('HSET', KEYS[4], 'o', ARGV[2], 'g', ARGV[3], 't', whole(now))
keep(ARGV[1], tonumber(ARGV[4]))
return { 'done', found[1], found[2] }
`);

/**
 * ARGV: ID, epoch, parts before, bytes before, parts, their bytes, charge, bounds of bytes of the reply and of the owner, lifetime
 * in ms, channel, what is published, number of places, and for each place part and offset, then for each metadata part and
 * bytes.
 */
export const APPEND = script(`${WRITER}
local found = redis.call('HMGET', KEYS[4], 'n', 's', 'e', 'c', 'g', 'z')
if not found[1] then return 'gone' end
if found[3] or (found[5] or '0') ~= ARGV[2] then return refusal(found[6]) end
local parts, size = tonumber(found[1]), tonumber(found[2])
if parts == ARGV[3] + ARGV[5] then return 'done' end
if parts ~= tonumber(ARGV[3]) or size ~= tonumber(ARGV[4]) then return 'behind' end
if size > 0 and redis.call('STRLEN', KEYS[5]) ~= size then return 'behind' end
local bytes = found[4] + ARGV[7]
if bytes > tonumber(ARGV[8]) then return 'reply_too_large' end
if isOver(ARGV[9], ARGV[7]) then return 'over_budget' end
redis.call('APPEND', KEYS[5], ARGV[6])
redis.call('HSET', KEYS[4], 'n', whole(ARGV[3] + ARGV[5]), 's', whole(size + #ARGV[6]), 'c', whole(bytes), 't', whole(now))
charge(ARGV[1], ARGV[7])
local places = tonumber(ARGV[13])
for i = 14, #ARGV, 2 do
  local key = i < 14 + 2 * places and KEYS[6] or KEYS[7]
  redis.call('ZADD', key, ARGV[i], ARGV[i] .. ':' .. ARGV[i + 1])
end
if size == 0 or #ARGV > 14 + 2 * places then keep(ARGV[1], tonumber(ARGV[10])) end
redis.call('PUBLISH', ARGV[11], ARGV[12])
return 'done'
`);

/**
 * ARGV: ID, how many parts it has to have or '*', time, failure and metadata (with '=' before it, or ''), TTL in ms, who
 * ends it, channel, charge, bounds of bytes of the reply and of the owner, epoch, why or '', beginning of the channels of nodes.
 */
export const END = script(`${WRITER}
local found = redis.call('HMGET', KEYS[4], 'n', 'e', 'w', 'c', 'g', 'z', 'o')
if not found[1] then return 'gone' end
if (found[5] or '0') ~= ARGV[12] then return 'ended' end
if found[2] then return found[3] == ARGV[7] and 'done' or refusal(found[6]) end
if ARGV[2] ~= '*' and found[1] ~= ARGV[2] then return 'behind' end
local more = tonumber(ARGV[9])
if more > 0 then
  if found[4] + more > tonumber(ARGV[10]) then return 'reply_too_large' end
  if isOver(ARGV[11], more) then return 'over_budget' end
  charge(ARGV[1], more)
end
redis.call('HSET', KEYS[4], 'e', ARGV[3], 'w', ARGV[7], 'z', ARGV[13])
if ARGV[4] ~= '' then redis.call('HSET', KEYS[4], 'x', string.sub(ARGV[4], 2)) end
if ARGV[5] ~= '' then redis.call('HSET', KEYS[4], 'y', string.sub(ARGV[5], 2)) end
local parts = redis.call('GET', KEYS[5])
if parts then redis.call('SET', KEYS[5], parts) end
keep(ARGV[1], tonumber(ARGV[6]))
redis.call('PUBLISH', ARGV[8], '')
if found[7] and found[7] ~= ARGV[7] then redis.call('PUBLISH', ARGV[14] .. found[7], ARGV[1]) end
return 'done'
`);

/** ARGV: ID, lifetime in ms, epoch. Returns 'gone', 'ended', 'stopped', or the time in ms since it was followed, -1 if it never was. */
export const KEEP = script(`${WRITER}
local found = redis.call('HMGET', KEYS[4], 'n', 'e', 'f', 'g', 'z')
if not found[1] then return 'gone' end
if found[2] or (found[4] or '0') ~= ARGV[3] then return refusal(found[5]) end
redis.call('HSET', KEYS[4], 't', whole(now))
keep(ARGV[1], tonumber(ARGV[2]))
return found[3] and whole(now - found[3]) or '-1'
`);

/** ARGV: ID, channel. */
export const DROP = script(`${ACCOUNT}
forget(ARGV[1])
redis.call('DEL', KEYS[4], KEYS[5], KEYS[6], KEYS[7])
redis.call('PUBLISH', ARGV[2], '')
return 'done'
`);

/**
 * KEYS: the reply. Returns head, parts, time of its end (with '=' or ''), 1 if it has failed; the time since it was written in ms, its writer,
 * the epoch and the source.
 */
export const ENTRY = script(`${CLOCK}
local found = redis.call('HMGET', KEYS[1], 'h', 'n', 'e', 't', 'o', 'g', 'r')
if not found[2] then return {} end
local failed = redis.call('HEXISTS', KEYS[1], 'x')
local idle = whole(now - (tonumber(found[4]) or 0))
return { found[1] or '', found[2], found[3] and '=' .. found[3] or '', failed, idle, found[5] or '', found[6] or '0', found[7] or '' }
`);

/** KEYS: the reply. Returns parts, whether it has ended, and the last four of {@link ENTRY}. */
export const FOLLOW = script(`${CLOCK}
local found = redis.call('HMGET', KEYS[1], 'n', 'e', 't', 'o', 'g', 'r')
if not found[1] then return {} end
if not found[2] then redis.call('HSET', KEYS[1], 'f', whole(now)) end
local idle = whole(now - (tonumber(found[3]) or 0))
return { found[1], found[2] and 1 or 0, idle, found[4] or '', found[5] or '0', found[6] or '' }
`);

/**
 * KEYS: the reply, its parts, places, metadata. ARGV: parts before. Returns all parts; the first part and the bytes of what
 * is read; whether that reaches the last part, and then time, failure and metadata of the end (with '=' or ''); metadata
 * before (with '=' or ''); the number of the last part that is read, and of the last one.
 */
export const READ = script(`
local found = redis.call('HMGET', KEYS[1], 'n', 's', 'e', 'x', 'y')
if not found[1] then return {} end
local parts, size, after = tonumber(found[1]), tonumber(found[2]), tonumber(ARGV[1])
if redis.call('STRLEN', KEYS[2]) < size then return {} end
local function some(text) return text and '=' .. text or '' end
local function placeOf(text)
  local at = string.find(text, ':', 1, true)
  return tonumber(string.sub(text, 1, at - 1)), tonumber(string.sub(text, at + 1))
end
local first, bytes, reaches, lastRead = after, '', 1, parts
if after < parts then
  local before = redis.call('ZREVRANGEBYSCORE', KEYS[3], ARGV[1], '-inf', 'LIMIT', 0, 1)
  local from
  first, from = placeOf(before[1])
  local to, isLast = size, true
  local next = redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. ARGV[1], '+inf', 'LIMIT', 0, ${PLACES})
  for i, each in ipairs(next) do
    local part, offset = placeOf(each)
    if part >= parts then break end
    if i == 1 or offset - from <= ${READ_SIZE} then to, isLast, lastRead = offset, false, part end
  end
  if not isLast and #next < ${PLACES} and size - from <= ${READ_SIZE} then to, isLast, lastRead = size, true, parts end
  reaches = isLast and 1 or 0
  bytes = redis.call('GETRANGE', KEYS[2], from, to - 1)
end
local last = redis.call('ZREVRANGEBYSCORE', KEYS[4], ARGV[1], '-inf', 'LIMIT', 0, 1)
local metadata = ''
if last[1] then metadata = '=' .. string.sub(last[1], string.find(last[1], ':', 1, true) + 1) end
local function whole(number) return string.format('%.0f', number) end
return { whole(first), bytes, reaches, some(found[3]), some(found[4]), some(found[5]), metadata,
  whole(lastRead), whole(parts) }
`);

/**
 * KEYS: account, reply, metadata. ARGV: ID. Returns how long it is kept in ms, head, time of its end (with '=' or ''), who has ended it, why,
 * failure and metadata of the end (with '=' or ''), writer, epoch, source, 1 if it is found by its name; then its metadata.
 */
export const WHOLE = script(`
local found = redis.call('HMGET', KEYS[2], 'h', 'e', 'w', 'z', 'x', 'y', 'o', 'g', 'r')
if not found[1] then return {} end
local function some(text) return text and '=' .. text or '' end
local name = redis.call('HGET', KEYS[1], 'i:' .. ARGV[1])
local isNamed = name and redis.call('HGET', KEYS[1], 'n:' .. name) == ARGV[1]
local all = { string.format('%.0f', redis.call('PTTL', KEYS[2])), found[1], some(found[2]), found[3] or '', found[4] or '',
  some(found[5]), some(found[6]), found[7] or '', found[8] or '0', found[9] or '', isNamed and '1' or '0' }
for _, each in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do all[#all + 1] = each end
return all
`);

/** KEYS: account, times, ranks. ARGV: the rank before which it begins, or '+inf'. Returns IDs, each before its rank. */
export const LIST = script(`${ACCOUNT}
sweep()
return redis.call('ZREVRANGEBYSCORE', KEYS[3], ARGV[1], '-inf', 'WITHSCORES', 'LIMIT', 0, ${PAGE_SIZE})
`);

/** KEYS: of replies that others may follow. ARGV: when it began, ID, how many are remembered, lifetime in ms. */
export const SHARE = script(`
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - ARGV[3])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[4]) then redis.call('PEXPIRE', KEYS[1], ARGV[4]) end
return 'done'
`);

/**
 * A session without a principal is a hash: `o`, whom it acts for, and `t:HASH` for each of its tokens.
 *
 * KEYS: the hash. ARGV: whom it acts for, lifetime in ms, SHA-256 of each token.
 */
export const VOUCH = script(`
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'o', ARGV[1])
for i = 3, #ARGV do redis.call('HSET', KEYS[1], 't:' .. ARGV[i], 1) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 'done'
`);
