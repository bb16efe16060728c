// Speaks to a hive for judges that know no token, as a proxy in front of it would: with-token.mjs PORT TOKEN. Prints its
// own port. A Host or Origin that names this proxy names the hive; any other is left as it is.
import { createServer, request } from 'node:http';

const [port, token] = process.argv.slice(2);

const proxy = createServer((asked, answer) => {
  const ours = (text) => text?.replace(`:${proxy.address().port}`, `:${port}`);
  const headers = { ...asked.headers, authorization: `Bearer ${token}` };
  for (const name of ['host', 'origin']) if (headers[name]) headers[name] = ours(headers[name]);
  const passed = request({ host: '127.0.0.1', port, path: asked.url, method: asked.method, headers }, (told) => {
    answer.writeHead(told.statusCode, told.headers);
    answer.flushHeaders();
    told.pipe(answer);
  });
  passed.on('error', () => answer.destroy());
  answer.on('close', () => passed.destroy());
  asked.pipe(passed);
}).listen(0, '127.0.0.1', () => console.log(proxy.address().port));
