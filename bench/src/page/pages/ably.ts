import { BaseRealtime, FetchRequest, WebSocketTransport } from 'ably/modular';
import { server, show } from './shown.js';

const realtime = new BaseRealtime({ key: server, plugins: { WebSocketTransport, FetchRequest } });
const channel = realtime.channels.get('chat');
await channel.subscribe(({ data }) => show(String(data)));
await channel.publish('message', 'hello');
