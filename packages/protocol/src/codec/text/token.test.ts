import { describe, expect, it } from 'vitest';
import { errorCode } from '../../testing/error-code.js';
import { DEFAULTS, reread, withDefaults } from './testing/token-meaning.js';
import { decodeToken, encodeToken } from './token.js';

describe('the tables of the document', () => {
  // Section 5.3.2, each key at its place, in the order of the table.
  it('abbreviates all keys of a request', () => {
    const request = {
      messages: [{ content: 'x', role: 'user', name: 'ann' }],
      model: 'other',
      temperature: 0.5,
      max_tokens: 5,
      top_p: 0.5,
      stream: true,
      stop: 'x',
      frequency_penalty: 0.5,
      presence_penalty: 0.5,
      logit_bias: { 7: 1 },
      user: 'u1',
      n: 2,
      seed: 7,
      tools: [{ type: 'function', function: { name: 'f', parameters: {} } }],
      tool_choice: { type: 'function', function: { name: 'f' } },
      function_call: { name: 'f' },
      functions: [{ name: 'f', parameters: {} }],
      response_format: { type: 'json_object' },
    };
    expect(encodeToken(JSON.stringify(request))).toBe(
      '#T1|{"m":[{"c":"x","r":"u","n":"ann"}],"M":"other","T":0.5,"x":5,"p":0.5,"s":true,"S":"x","f":0.5,"P":0.5,' +
        '"lb":{"7":1},"u":"u1","n":2,"se":7,"ts":[{"t":"function","fn":{"n":"f","parameters":{}}}],' +
        '"tc":{"t":"function","fn":{"n":"f"}},"fc":{"n":"f"},"fs":[{"n":"f","parameters":{}}],"rf":{"t":"json_object"}}',
    );
    expect(reread(JSON.stringify(request))).toEqual(request);
  });

  it('abbreviates all keys of a response and of a chunk', () => {
    const toolCalls = [
      { index: 0, id: 'c', type: 'function', function: { name: 'f', arguments: '{"n":1}' } },
    ];
    const response = {
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: null, tool_calls: toolCalls },
          finish_reason: 'tool_calls',
          logprobs: null,
        },
      ],
      usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 },
    };
    expect(encodeToken(JSON.stringify(response))).toBe(
      '#T1|{"C":[{"i":0,"m":{"r":"a","c":null,"tc":[{"i":0,"id":"c","t":"function","fn":{"n":"f","a":"{\\"n\\":1}"}}]},' +
        '"fr":"tc","lp":null}],"U":{"pt":1,"ct":2,"tt":3}}',
    );
    const chunk = { choices: [{ index: 1, delta: { tool_calls: toolCalls }, finish_reason: null }] };
    expect(encodeToken(JSON.stringify(chunk))).toBe(
      '#T1|{"C":[{"i":1,"d":{"tc":[{"i":0,"id":"c","t":"function","fn":{"n":"f","a":"{\\"n\\":1}"}}]},"fr":null}]}',
    );
    for (const value of [response, chunk]) expect(reread(JSON.stringify(value))).toEqual(value);
  });

  it.each([
    ['system', 's'],
    ['user', 'u'],
    ['assistant', 'a'],
    ['function', 'f'],
    ['tool', 't'],
  ])('abbreviates the role %s as %s', (role, short) => {
    const json = `{"messages":[{"role":"${role}"}]}`;
    expect(encodeToken(json)).toBe(`#T1|{"m":[{"r":"${short}"}]}`);
    expect(reread(json)).toEqual(withDefaults(json));
  });

  it.each([
    ['stop', 's'],
    ['length', 'l'],
    ['tool_calls', 'tc'],
    ['content_filter', 'cf'],
    ['function_call', 'fc'],
  ])('abbreviates the finish reason %s as %s', (reason, short) => {
    const json = `{"choices":[{"finish_reason":"${reason}"}]}`;
    expect(encodeToken(json)).toBe(`#T1|{"C":[{"fr":"${short}"}]}`);
    expect(decodeToken(encodeToken(json))).toBe(json);
  });

  it.each([
    ['gpt-4o', '4o'],
    ['gpt-4o-mini', '4om'],
    ['gpt-4-turbo', '4t'],
    ['gpt-4', '4'],
    ['gpt-3.5-turbo', '35t'],
    ['o1', 'o1'],
    ['o1-mini', 'o1m'],
    ['o1-preview', 'o1p'],
    ['o3', 'o3'],
    ['o3-mini', 'o3m'],
    ['meta-llama/llama-3.3-70b', 'ml3370'],
    ['meta-llama/llama-3.1-405b', 'ml31405'],
    ['meta-llama/llama-3.1-70b', 'ml3170'],
    ['meta-llama/llama-3.1-8b', 'ml318'],
    ['mistralai/mistral-large', 'mim-l'],
    ['mistralai/mistral-small', 'mim-s'],
    ['mistralai/mixtral-8x7b', 'mimx87'],
  ])('abbreviates the model %s as %s', (model, short) => {
    expect(encodeToken(`{"model":"${model}"}`)).toBe(`#T1|{"M":"${short}"}`);
    expect(decodeToken(`#T1|{"M":"${short}"}`)).toBe(`{"model":"${model}"}`);
  });

  it('writes the example of section 5.3.7', () => {
    const json =
      '{"model":"gpt-4o","messages":[{"role":"user","content":"Hello"}],"temperature":1.0,"stream":false}';
    expect(encodeToken(json)).toBe('#T1|{"M":"4o","m":[{"r":"u","c":"Hello"}]}');
    expect(reread(json)).toEqual({
      model: 'gpt-4o',
      messages: [{ role: 'user', content: 'Hello' }],
      ...DEFAULTS,
    });
  });
});

describe('default values', () => {
  it('leaves out default values of a request, and writes them out again', () => {
    const json = `{"messages":[],${JSON.stringify(DEFAULTS).slice(1)}`;
    expect(encodeToken(json)).toBe('#T1|{"m":[]}');
    expect(reread(json)).toEqual({ messages: [], ...DEFAULTS });
    expect(encodeToken('{"messages":[],"temperature":1.000,"presence_penalty":0.0,"logit_bias":{ }}')).toBe(
      '#T1|{"m":[]}',
    );
  });

  it.each([
    '{"messages":[],"temperature":1.0005}',
    '{"messages":[],"temperature":1.00000000000000000000001}',
    '{"messages":[],"temperature":"1"}',
    '{"messages":[],"temperature":null}',
    '{"messages":[],"stream":null}',
    '{"messages":[],"stop":[]}',
    '{"messages":[],"logit_bias":null}',
    '{"messages":[],"frequency_penalty":-0}',
    '{"messages":[],"n":10}',
  ])('keeps other values: %s', (json) => {
    const member = json.slice('{"messages":[],"'.length, -1);
    const value = member.slice(member.indexOf(':') + 1);
    expect(encodeToken(json)).toContain(`:${value}}`);
    expect(decodeToken(encodeToken(json))).toContain(member);
  });

  it('restores nothing in a response, and nothing below the top of a request', () => {
    const response = '{"model":"gpt-4","choices":[],"temperature":1.0}';
    expect(decodeToken(encodeToken(response))).toBe(response);
    const nested = '{"metadata":{"messages":[],"temperature":1,"n":1}}';
    expect(decodeToken(encodeToken(nested))).toBe(nested);
  });
});

describe('position', () => {
  it.each([
    ['{"m":[]}', '"messages":[]'],
    ['{"m":{}}', '"message":{}'],
    ['{"m":"x"}', '"m":"x"'],
    ['{"tc":"auto"}', '"tool_choice":"auto"'],
    ['{"C":[{"m":{"tc":[]}}]}', '"tool_calls":[]'],
    ['{"C":[{"d":{"tc":[]}}]}', '"tool_calls":[]'],
    ['{"n":2}', '"n":2'],
    ['{"n":"x"}', '"name":"x"'],
    ['{"m":[{"n":"x"}]}', '"name":"x"'],
    ['{"m":[{"n":-2}]}', '"n":-2'],
    ['{"ts":[{"fn":{"n":"x"}}]}', '"name":"x"'],
  ])('expands %s to %s', (abbreviated, expected) => {
    expect(decodeToken(`#T1|${abbreviated}`)).toContain(expected);
  });

  it.each([
    [
      '{"C":[{"m":{"c":"s","r":"s"},"fr":"s"}],"M":"4"}',
      '"content":"s","role":"system"},"finish_reason":"stop"',
    ],
    ['{"U":"4","M":"4"}', '"usage":"4","model":"gpt-4"'],
    ['{"C":[{"m":{"role":"u"}}]}', '"role":"user"'],
    ['{"model":"35t"}', '"model":"gpt-3.5-turbo"'],
  ])('expands values under their own key only: %s', (abbreviated, expected) => {
    expect(decodeToken(`#T1|${abbreviated}`)).toContain(expected);
  });

  it('changes nothing inside content, arguments, schemas or unknown members', () => {
    const short = { m: [{ r: 'u', c: 'x' }], M: '4o', n: 'x', tc: [], t: 'f', a: 1, role: 'u', model: '4' };
    const value = {
      messages: [
        { role: 'user', content: [short] },
        { role: 'assistant', content: null, function_call: { name: 'f', arguments: short } },
      ],
      tools: [{ type: 'function', function: { name: 'f', parameters: short } }],
      response_format: { type: 'json_schema', json_schema: short },
      metadata: short,
      ...DEFAULTS,
      temperature: 0,
    };
    expect(reread(JSON.stringify(value))).toEqual(value);
    expect(encodeToken(JSON.stringify(value)).split(JSON.stringify(short))).toHaveLength(6);
  });

  it.each([
    '{"m":[]}',
    '{"m":{}}',
    '{"M":"x"}',
    '{"n":"x"}',
    '{"n":null,"messages":[]}',
    '{"model":"4"}',
    '{"model":"4o"}',
    '{"messages":[{"role":"u"}]}',
    '{"messages":[{"r":"x"}]}',
    '{"messages":[{"name":1}],"x":1}',
    '{"choices":[{"finish_reason":"s"}]}',
    '{"choices":[{"message":{"tc":1}}]}',
    '{"messages":[],"m":[]}',
    '{"messages":[],"messages":[]}',
    '{"temperature":1,"temperature":2,"messages":[]}',
    '{"\\u006d":[]}',
  ])('refuses JSON whose meaning it would change: %s', (json) => {
    expect(errorCode(() => encodeToken(json))).toBe('unrepresentable');
  });

  it('writes no member twice if two names have one abbreviation', () => {
    const json = '{"messages":[{"role":"user","content":"x","name":"bob","n":2}]}';
    const { m: messages } = JSON.parse(encodeToken(json).slice('#T1|'.length));
    expect(messages).toEqual([{ r: 'u', c: 'x', name: 'bob', n: 2 }]);
    expect(JSON.parse(decodeToken(encodeToken(json))).messages).toEqual(JSON.parse(json).messages);
  });

  it('refuses to expand two keys to the same name', () => {
    for (const twice of ['{"m":[],"messages":[]}', '{"m":[{"r":"u","role":"u"}]}', '{"M":"4","M":"4o"}']) {
      expect(errorCode(() => decodeToken(`#T1|${twice}`))).toBe('bad_json');
    }
  });
});
