import { server, show } from './shown.js';

const socket = new WebSocket(server);
socket.onopen = () => socket.send('hello');
socket.onmessage = ({ data }) => show(data);
