import ReconnectingWebSocket from 'reconnecting-websocket';
import { server, show } from './shown.js';

// The package's types describe its CommonJS build; bundlers take the other one.
const Socket = ReconnectingWebSocket as unknown as typeof ReconnectingWebSocket.default;
const socket = new Socket(server);
socket.onmessage = ({ data }) => show(data);
socket.send('hello');
