// What the observer found, one JSON object a line: the input of `mortise affinity`.
#include "affinity/observe/observer.hpp"
#include "mortise/os/console.hpp"

namespace mortise::affinity {

const char* name_of(WrapperVerdict v) noexcept {
  switch (v) {
    case WrapperVerdict::wrapper: return "wrapper";
    case WrapperVerdict::stores_it: return "stores_it";
    case WrapperVerdict::writes_through: return "writes_through";
    case WrapperVerdict::passes_it: return "passes_it";
    case WrapperVerdict::does_not_return_it: return "does_not_return_it";
    case WrapperVerdict::too_long: return "too_long";
    case WrapperVerdict::not_readable: return "not_readable";
  }
  return "unknown";
}

namespace {

using Line = os::Line<4096>;

void quoted(Line& line, const char* text) noexcept {
  line.put('"');
  for (; text && *text; ++text) {
    if (*text == '"' || *text == '\\') line.put('\\');
    line.put(static_cast<unsigned char>(*text) < ' ' ? '?' : *text);
  }
  line.put('"');
}
Line& field(Line& line, const char* name, std::uint64_t value) noexcept {
  return line.text(", \"").text(name).text("\": ").number(value);
}

void write_module(os::Output& out, std::uint32_t number, const KnownModule& k) noexcept {
  Line line;
  const bool is_gone = k.is_gone || !k.is_loaded();
  line.text("{\"kind\": \"module\"");
  field(line, "id", number);
  field(line, "first", k.module.first);
  field(line, "last", k.module.last);
  field(line, "bias", k.module.bias);
  line.text(", \"loaded\": ").text(is_gone ? "false" : "true").text(", \"path\": ");
  // The loader calls the program itself by an empty name.
  char own[512] = {};
  const bool is_program = !is_gone && k.module.path && !*k.module.path;
  if (is_program) os::syscall(SYS_readlink, "/proc/self/exe", own, sizeof own - 1);
  quoted(line, is_program ? own : is_gone ? "" : k.module.path);
  line.text(", \"build_id\": \"");
  std::uint8_t id[32];
  const std::size_t bytes = is_gone ? 0 : build_id_of(k.module, id, sizeof id);
  for (std::size_t i = 0; i < bytes; ++i) line.put("0123456789abcdef"[id[i] >> 4]).put("0123456789abcdef"[id[i] & 15]);
  line.text("\"}").flush(out);
}

}  // namespace

void Observer::dump(os::Output& out) noexcept {
  write_dump(out);
  if (&dump_analysis) dump_analysis(out);
}

void Observer::write_dump(os::Output& out) noexcept {
  Line line;
  line.text("{\"kind\": \"run\", \"schema\": \"mortise.affinity-dump/1\", \"mode\": \"").text(name_of(options_.mode)).text("\"");
  line.text(", \"overhead_only\": ").text(options_.overhead_only ? "true" : "false");
  line.text(", \"wrappers\": \"").text(options_.wrappers == WrapperRule::strict ? "strict" : "liberal").text("\"");
  field(line, "objects_before_pool", options_.objects_before_pool);
  field(line, "object_bytes_max", options_.object_bytes_max);
  field(line, "pid", static_cast<std::uint64_t>(os::syscall(SYS_getpid)));
  field(line, "misses", counts_.calls);
  field(line, "judged", counts_.judged);
  field(line, "frame_rules", counts_.rules_known);
  field(line, "frame_rules_unknown", counts_.rules_unknown);
  field(line, "observed", counts_.observed);
  field(line, "unloads", counts_.unloads);
  field(line, "classes_closed", counts_.closed);
  field(line, "classes_opened", counts_.opened);
  field(line, "contexts_passing", counts_.passing);
  field(line, "contexts_staying", counts_.staying);
  field(line, "sites_patched", sites_.patched());
  field(line, "ways", ways_.last());
  field(line, "nodes", nodes_.last());
  field(line, "nodes_refused", counts_.nodes_refused);
  field(line, "pools", pools_);
  field(line, "table_bytes", ways_by_key_.bytes() + callers_by_address_.bytes() + nodes_by_chain_.bytes() +
                                 ways_.last() * sizeof(Way) + callers_.last() * sizeof(Caller) + nodes_.last() * sizeof(Node));
  line.text("}").flush(out);
  for (std::uint32_t i = 1; i <= modules_.last(); ++i) write_module(out, i, modules_[i]);
  for (std::uint32_t i = 1; i <= callers_.last(); ++i) {
    const Caller& c = callers_[i];
    if (!c.is_judged || !c.address) continue;
    line.text("{\"kind\": \"caller\"");
    field(line, "address", c.address);
    field(line, "module", c.module);
    line.text(", \"verdict\": \"").text(name_of(c.verdict)).text("\"}").flush(out);
  }
  for (NodeId id = 1; id <= nodes_.last(); ++id) {
    const NodeView v = view(id);
    line.text("{\"kind\": \"node\"");
    field(line, "id", id);
    field(line, "bytes", v.size_class * kMinAlign);
    field(line, "counted", v.objects);
    field(line, "pool", v.pool ? root(id).pool->today()->id : 0);
    field(line, "root", root(id).id);
    line.text(", \"own_pool\": ").text(v.has_own_pool ? "true" : "false");
    field(line, "why", static_cast<unsigned>(nodes_[id].why));
    line.text(", \"chain\": [");
    for (unsigned i = 0; i < v.chain_length; ++i) line.text(i ? ", " : "").number(v.chain[i]);
    line.text("]}").flush(out);
  }
}

}  // namespace mortise::affinity
