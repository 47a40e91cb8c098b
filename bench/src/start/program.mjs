/** Starts one server as an application does, on plain Node, and says what that has cost as soon as it listens. */
const starts = {
  async session() {
    const { createServer } = await import('@parlance/server');
    await createServer({ onRequest: ({ text }) => text }).listen({ port: 0 });
  },
  async ws() {
    const { WebSocketServer } = await import('ws');
    await new Promise((resolve) =>
      new WebSocketServer({ host: '127.0.0.1', port: 0 }).once('listening', resolve),
    );
  },
};

await starts[process.argv[2]]();
const { user, system } = process.cpuUsage();
console.log(JSON.stringify({ cpu: (user + system) / 1_000, rss: process.memoryUsage.rss() / 1e6 }));
