/** The Lua half of `fair-share.ts`, which says what it is for. Everything here is one step for everybody else. */

/**
 * What the scripts share.
 *
 *   KEYS[1] clocks  KEYS[2] tenants  KEYS[3] counter  KEYS[4] rules of tenants
 *   ARGV[1] what the keys of the queue begin with  ARGV[2] size of a window  ARGV[3] UNPLACED  ARGV[4] STAGED_AT
 *
 * An order is `priority * SHIFT + number`: a job's place among those of its tenant; below 0 somebody waits for it. A score of
 * `prioritized` is BullMQ's `tag * SHIFT + number`, of `delayed` its `time * 4096 + number`.
 */
const SHARED = `
local base, WINDOW, UNPLACED = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local call, SHIFT, STEP, REBASE, BULK = redis.call, 4294967296, 32, 1048576, 200
local FRESH = tonumber(ARGV[4]) * 4096
local KNOWN = 2 * FRESH
local clocks, tenants, counter, ruleTexts = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local prioritized, delayed = base .. 'prioritized', base .. 'delayed'

local function windowOf(tenant) return base .. '_window:' .. tenant end
local function stagedOf(tenant) return base .. '_staged:' .. tenant end
local function tagIn(score) return math.floor(tonumber(score) / SHIFT) end
local function nextNumber() return call('INCR', counter) % SHIFT end

-- A window of a tenant without a limit holds what waits; with one, what waits or runs, until it ends.
local function prune(tenant, limit)
  local window = windowOf(tenant)
  if limit then
    for _, id in ipairs(call('ZRANGE', window, 0, -1)) do
      local job = base .. id
      if not call('ZSCORE', prioritized, id)
        and (call('EXISTS', job) == 0 or call('HEXISTS', job, 'finishedOn') == 1) then
        call('ZREM', window, id)
      end
    end
    return
  end
  -- The first of them is the first to be taken.
  local first = call('ZRANGE', window, 0, 0)[1]
  if first and not call('ZSCORE', prioritized, first) then
    call('ZINTERSTORE', window, 2, window, prioritized, 'WEIGHTS', 1, 0)
  end
end

local known = {}
local function ruleOf(tenant)
  local rule = known[tenant]
  if rule then return rule end
  local text = call('HGET', ruleTexts, tenant) or call('HGET', ruleTexts, '*')
  local said = text and cjson.decode(text) or {}
  local step = math.max(1, math.floor(STEP / (said.weight or 1) + 0.5))
  prune(tenant, said.concurrency)
  rule = {
    limit = said.concurrency, most = said.concurrency or WINDOW, step = step,
    count = call('ZCARD', windowOf(tenant)), staged = call('ZCARD', stagedOf(tenant)),
  }
  known[tenant] = rule
  return rule
end
`;

/**
 * Gives unplaced jobs their places and fills windows from staging.
 *
 *   ARGV[5] most unplaced jobs to look at  ARGV[6…] tenants whose windows are to be filled, or `*` alone for all
 *   returns 1 when more jobs are unplaced, else 0
 */
export const SETTLE = `${SHARED}
local most = tonumber(ARGV[5])
local touched, disordered, woken = {}, {}, false

-- Tags are kept small: everything that has one moves down together.
local function rebase(by, top)
  local pairs = call('ZRANGEBYSCORE', prioritized, 0, '(' .. string.format('%.0f', (top + 1) * SHIFT), 'WITHSCORES')
  for at = 1, #pairs, 2 do
    local score = tonumber(pairs[at + 1]) - by * SHIFT
    call('ZADD', prioritized, score, pairs[at])
    call('HSET', base .. pairs[at], 'priority', tagIn(score))
  end
  local entries = call('ZRANGE', clocks, 0, -1, 'WITHSCORES')
  for at = 1, #entries, 2 do
    local clock = tonumber(entries[at + 1]) - by
    if clock > 0 then call('ZADD', clocks, clock, entries[at]) else call('ZREM', clocks, entries[at]) end
  end
end

-- The time of what is served next, and of the last that was given. A tag beyond that was given by nobody here.
local function readTime()
  local top = tonumber(call('ZREVRANGE', clocks, 0, 0, 'WITHSCORES')[2] or 0)
  local head = call('ZRANGE', prioritized, 0, 0, 'WITHSCORES')[2]
  local tag = head and tagIn(head)
  if not tag or tag > top then
    call('DEL', clocks)
    return 0, 0
  end
  local now = math.max(0, tag - 1)
  if now < REBASE then return now, top end
  rebase(now, top)
  return 0, top - now
end
local now, top = readTime()

local function place(tenant, id, order)
  local job, rule = base .. id, ruleOf(tenant)
  if order < 0 then
    call('HSET', job, 'priority', 0, 'delay', 0)
    call('ZREM', prioritized, id)
    call('LPUSH', base .. 'wait', id)
  else
    local clock = math.max(now, tonumber(call('ZSCORE', clocks, tenant) or 0))
    clock = math.min(clock, UNPLACED - 1 - rule.step)
    call('ZADD', clocks, clock + rule.step, tenant)
    call('HSET', job, 'priority', clock + 1, 'delay', 0)
    call('ZADD', prioritized, (clock + 1) * SHIFT + call('INCR', base .. 'pc') % SHIFT, id)
  end
  call('ZREM', delayed, id)
  if call('ZADD', windowOf(tenant), order, id) == 1 then rule.count = rule.count + 1 end
  woken = true
end

local function stage(tenant, id, order)
  local rule = ruleOf(tenant)
  call('ZREM', prioritized, id)
  if call('ZREM', windowOf(tenant), id) == 1 then rule.count = rule.count - 1 end
  if call('ZADD', stagedOf(tenant), order, id) == 1 then rule.staged = rule.staged + 1 end
  call('HSET', base .. id, 'priority', UNPLACED, 'delay', ARGV[4])
  call('ZADD', delayed, KNOWN + 2 * nextNumber(), id)
end

local function isAheadOfLast(tenant, order)
  local last = call('ZREVRANGE', windowOf(tenant), 0, 0, 'WITHSCORES')[2]
  return last and order < tonumber(last)
end

local function admit(tenant, id, priority)
  local rule = ruleOf(tenant)
  local earlier = call('ZSCORE', windowOf(tenant), id)
  local order = tonumber(earlier or priority * SHIFT + nextNumber())
  call('SADD', tenants, tenant)
  touched[tenant] = true
  if not earlier and (rule.count >= rule.most or rule.staged > 0) then return stage(tenant, id, order) end
  if isAheadOfLast(tenant, order) then disordered[tenant] = true end
  place(tenant, id, order)
end

local function ownerOf(id)
  local text = call('HGET', base .. id, 'data')
  if not text then return nil end
  local isRead, data = pcall(cjson.decode, text)
  if not isRead or type(data) ~= 'table' then data = {} end
  local tenant = type(data.tenant) == 'string' and data.tenant or 'default'
  if data.interactive == true then return tenant, -1 end
  return tenant, tonumber(data.priority) or 1000
end

local function admitAll(set, ids)
  for _, id in ipairs(ids) do
    local tenant, priority = ownerOf(id)
    if tenant then admit(tenant, id, priority) else call('ZREM', set, id) end
  end
end

local unplaced = call('ZRANGEBYSCORE', prioritized, (top + 1) * SHIFT, '+inf', 'LIMIT', 0, most)
admitAll(prioritized, unplaced)
local fresh = call('ZRANGEBYSCORE', delayed, FRESH, '(' .. string.format('%.0f', KNOWN), 'LIMIT', 0, most)
for _, id in ipairs(fresh) do
  call('XADD', base .. 'events', '*', 'event', 'waiting', 'jobId', id, 'prev', 'delayed')
end
admitAll(delayed, fresh)

local function lastWaiting(tenant)
  local at = 0
  while true do
    local last = call('ZREVRANGE', windowOf(tenant), at, at, 'WITHSCORES')
    if not last[1] then return nil end
    if call('ZSCORE', prioritized, last[1]) then return last[1], tonumber(last[2]) end
    at = at + 1
  end
end

-- As \`place\` does, with few calls for many: by order, as the texts that Redis gave, none of them below 0.
local function placeAll(tenant, ids, orders)
  local rule, count = ruleOf(tenant), #ids
  local clock = math.max(now, tonumber(call('ZSCORE', clocks, tenant) or 0))
  local number = call('INCRBY', base .. 'pc', count) - count
  local tags, places = {}, {}
  if isAheadOfLast(tenant, tonumber(orders[1])) then disordered[tenant] = true end
  for at, id in ipairs(ids) do
    local tag = math.min(clock, UNPLACED - 1 - rule.step) + 1
    clock = tag - 1 + rule.step
    -- Redis writes a number as a fraction, which is slow.
    call('HSET', base .. id, 'priority', string.format('%d', tag), 'delay', '0')
    tags[2 * at - 1], tags[2 * at] = string.format('%d', tag * SHIFT + (number + at) % SHIFT), id
    places[2 * at - 1], places[2 * at] = orders[at], id
  end
  call('ZADD', clocks, clock, tenant)
  call('ZADD', prioritized, unpack(tags))
  call('ZREM', delayed, unpack(ids))
  rule.count = rule.count + call('ZADD', windowOf(tenant), unpack(places))
  woken = true
end

-- Lets the first that are staged in while there is room for them; false when there was none.
local function fillRoom(tenant)
  local rule = ruleOf(tenant)
  local room = math.min(rule.most - rule.count, BULK)
  if room <= 0 or rule.staged <= 0 then return false end
  local first = call('ZRANGE', stagedOf(tenant), 0, room - 1, 'WITHSCORES')
  local all, ids, orders = {}, {}, {}
  for at = 1, #first, 2 do all[#all + 1] = first[at] end
  if #all == 0 then return false end
  local times = call('ZMSCORE', delayed, unpack(all))
  call('ZREMRANGEBYRANK', stagedOf(tenant), 0, #all - 1)
  rule.staged = rule.staged - #all
  for at, id in ipairs(all) do
    local order = first[2 * at]
    local isThere = tonumber(times[at] or 0) >= FRESH
    if isThere and tonumber(order) < 0 then
      place(tenant, id, tonumber(order))
    elseif isThere then
      ids[#ids + 1], orders[#orders + 1] = id, order
    end
  end
  if #ids > 0 then placeAll(tenant, ids, orders) end
  return true
end

local function sendBack(tenant, id, order)
  stage(tenant, id, order)
  if call('ZSCORE', clocks, tenant) then call('ZINCRBY', clocks, -ruleOf(tenant).step, tenant) end
end

local function fill(tenant)
  local rule = ruleOf(tenant)
  while rule.count > rule.most do
    local last, order = lastWaiting(tenant)
    if not last then break end
    sendBack(tenant, last, order)
  end
  while fillRoom(tenant) do end
  -- The window is full: who is more urgent takes the place of who is least.
  for _ = 1, 2 * WINDOW do
    local first = call('ZRANGE', stagedOf(tenant), 0, 0, 'WITHSCORES')
    local id, order = first[1], tonumber(first[2])
    if not id then break end
    local isThere = tonumber(call('ZSCORE', delayed, id) or 0) >= FRESH
    if isThere and rule.count >= rule.most then
      local last, lastOrder = lastWaiting(tenant)
      if not last or lastOrder <= order then break end
      sendBack(tenant, last, lastOrder)
    end
    call('ZREM', stagedOf(tenant), id)
    rule.staged = rule.staged - 1
    if isThere then
      if isAheadOfLast(tenant, order) then disordered[tenant] = true end
      place(tenant, id, order)
    end
  end
  if rule.staged == 0 and rule.count == 0 then call('SREM', tenants, tenant) end
end

-- The tenant's places stay, and its jobs take them in their order.
local function reorder(tenant)
  local ids, scores = {}, {}
  for _, id in ipairs(call('ZRANGE', windowOf(tenant), 0, -1)) do
    local score = call('ZSCORE', prioritized, id)
    if score then
      ids[#ids + 1] = id
      scores[#scores + 1] = tonumber(score)
    end
  end
  table.sort(scores)
  for at, id in ipairs(ids) do
    call('ZADD', prioritized, scores[at], id)
    call('HSET', base .. id, 'priority', tagIn(scores[at]))
  end
end

if ARGV[6] == '*' then
  for _, tenant in ipairs(call('SMEMBERS', tenants)) do touched[tenant] = true end
else
  for at = 6, #ARGV do touched[ARGV[at]] = true end
end
for tenant in pairs(touched) do fill(tenant) end
for tenant in pairs(disordered) do reorder(tenant) end
if woken and call('HEXISTS', base .. 'meta', 'paused') == 0 then call('ZADD', base .. 'marker', 0, '0') end
return (#unplaced == most or #fresh == most) and 1 or 0
`;

/**
 * Whether a job that a worker has taken may run.
 *
 *   ARGV[5] tenant  ARGV[6] job id  ARGV[7] priority
 *   returns 1 or 0
 */
export const ENTER = `${SHARED}
local tenant, id = ARGV[5], ARGV[6]
local rule, window = ruleOf(tenant), windowOf(tenant)
if not rule.limit or call('ZSCORE', window, id) then return 1 end
if rule.count >= rule.limit then return 0 end
call('ZADD', window, tonumber(ARGV[7]) * SHIFT + nextNumber(), id)
call('SADD', tenants, tenant)
return 1
`;

/** returns for each tenant its name and how many jobs of it wait */
export const WAITING = `${SHARED}
local waiting = {}
for _, tenant in ipairs(call('SMEMBERS', tenants)) do
  local rule = ruleOf(tenant)
  local placed = rule.count
  if rule.limit then
    placed = 0
    for _, id in ipairs(call('ZRANGE', windowOf(tenant), 0, -1)) do
      if call('ZSCORE', prioritized, id) then placed = placed + 1 end
    end
  end
  waiting[#waiting + 1] = tenant
  waiting[#waiting + 1] = placed + rule.staged
end
return waiting
`;
