// An MCP server on standard input and output with the tools that the conformance suite calls by name: what they answer
// must come through skep as it left here.
import { createInterface } from 'node:readline';

const text = (text) => ({ type: 'text', text });
const image = {
  type: 'image',
  mimeType: 'image/png',
  data: 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==',
};
const audio = { type: 'audio', mimeType: 'audio/wav', data: 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=' };
const resource = (uri, mimeType, text) => ({ type: 'resource', resource: { uri, mimeType, text } });

const tools = {
  test_simple_text: { content: [text('This is a simple text response for testing.')] },
  test_image_content: { content: [image] },
  test_audio_content: { content: [audio] },
  test_embedded_resource: {
    content: [resource('test://embedded-resource', 'text/plain', 'This is an embedded resource content.')],
  },
  test_multiple_content_types: {
    content: [
      text('Multiple content types test:'),
      image,
      resource('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}'),
    ],
  },
  test_error_handling: { content: [text('This tool intentionally returns an error for testing')], isError: true },
};

const send = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }));
const tell = (method, params) => send({ method, params });
const pause = () => new Promise((resolve) => setTimeout(resolve, 50));

/** Tools that say something before they answer. */
const talkers = {
  test_tool_with_progress: async ({ _meta }) => {
    for (const progress of [0, 50, 100]) {
      tell('notifications/progress', { progressToken: _meta.progressToken, progress, total: 100 });
      await pause();
    }
    return { content: [text('Told of its progress.')] };
  },
  test_tool_with_logging: async () => {
    for (const data of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
      tell('notifications/message', { level: 'info', data });
      await pause();
    }
    return { content: [text('Logged what it did.')] };
  },
};

const methods = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {}, logging: {} },
    serverInfo: { name: 'fixture', version: '1.0.0' },
  }),
  ping: () => ({}),
  'logging/setLevel': () => ({}),
  'tools/list': () => ({
    tools: Object.keys({ ...tools, ...talkers }).map((name) => ({
      name,
      description: `Is ${name}.`,
      inputSchema: { type: 'object' },
    })),
  }),
  'tools/call': (params) => tools[params.name] ?? talkers[params.name]?.(params),
};

createInterface({ input: process.stdin }).on('line', async (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const result = await methods[method]?.(params ?? {});
  send({ id, ...(result ? { result } : { error: { code: -32601, message: `there is no ${method}` } }) });
});
