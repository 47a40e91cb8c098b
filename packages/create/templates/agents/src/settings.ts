const { AGENTS_SECRET, HOST = '127.0.0.1', PORT = '8765', URL: url = `ws://127.0.0.1:${PORT}` } = process.env;
if (AGENTS_SECRET === undefined && HOST !== '127.0.0.1')
  throw new Error('set AGENTS_SECRET: other machines can reach this server');

export const settings = {
  host: HOST,
  port: Number(PORT),
  url,
  secret: AGENTS_SECRET ?? 'only for this machine',
};
