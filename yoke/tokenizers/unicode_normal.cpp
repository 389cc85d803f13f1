#include "yoke/tokenizers/unicode_normal.h"

#include <algorithm>
#include <vector>

namespace yoke {
namespace {

struct Mark {
  uint8_t combining_class;
  char32_t c;
  int change;  // see Note [Origins]
};

// A starter and the marks behind it, sorted: all that canonical ordering and composition look at.
using Cluster = std::vector<Mark>;

// Composes the cluster onto its starter. Returns the starter as it becomes.
Mark compose_marks(Cluster& cluster) {
  Mark starter = cluster.front();
  size_t kept = 0;
  int last_class = -1;  // of the marks kept so far; -1: none
  for (size_t i = 1; i < cluster.size(); ++i) {
    const Mark mark = cluster[i];
    const bool blocked = last_class >= 0 && last_class >= mark.combining_class;
    if (const auto composed = blocked ? std::nullopt : compose(starter.c, mark.c)) {
      starter.c = *composed;
      starter.change += mark.change - 1;
    } else {
      cluster[kept++] = mark;
      last_class = mark.combining_class;
    }
  }
  cluster.resize(kept);
  return starter;
}

class NormalFormWriter {
 public:
  NormalFormWriter(Rewriter& out, bool composing) : out_(out), composing_(composing) {}

  void add(char32_t c, int change) {
    const uint8_t combining = combining_class(c);
    if (combining == 0) flush_cluster();
    cluster_.push_back({combining, c, change});
  }

  void finish() {
    flush_cluster();
    if (waiting_) out_.emit(starter_.c, starter_.change);
  }

 private:
  void flush_cluster() {
    if (cluster_.empty()) return;
    std::stable_sort(cluster_.begin(), cluster_.end(), [](const Mark& a, const Mark& b) {
      return a.combining_class < b.combining_class;
    });
    if (!composing_ || cluster_.front().combining_class != 0) {
      for (const Mark& mark : cluster_) out_.emit(mark.c, mark.change);
    } else {
      compose_cluster();
    }
    cluster_.clear();
  }

  // A starter without marks may still compose with the starter behind it (Hangul).
  void compose_cluster() {
    if (waiting_) {
      if (const auto composed = compose(starter_.c, cluster_.front().c)) {
        cluster_.front() = {0, *composed, starter_.change + cluster_.front().change - 1};
      } else {
        out_.emit(starter_.c, starter_.change);
      }
      waiting_ = false;
    }
    starter_ = compose_marks(cluster_);
    if (cluster_.empty()) {
      waiting_ = true;
      return;
    }
    out_.emit(starter_.c, starter_.change);
    for (const Mark& mark : cluster_) out_.emit(mark.c, mark.change);
  }

  Rewriter& out_;
  const bool composing_;
  Cluster cluster_;
  Mark starter_{};
  bool waiting_ = false;
};

}  // namespace

void to_normal_form(NormalizedText& text, NormalForm form) {
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  NormalizedText next;
  Rewriter rewriter(text, next);
  NormalFormWriter writer(rewriter, form == NormalForm::nfc || form == NormalForm::nfkc);
  for (size_t at = 0; at < text.text.size();) {
    const char32_t c = next_code_point(text.text, at);
    if (c < 0x80) {
      writer.add(c, 0);
      continue;
    }
    const Decomposition parts = decompose(c, compatible);
    for (int i = 0; i < parts.size; ++i) writer.add(parts.points[i], i == 0 ? 0 : 1);
  }
  writer.finish();
  text.swap(next);
}

}  // namespace yoke
