// The four normal forms of Unicode (UAX #15) as the peer computes them, with origins.
//
//   to_normal_form(text, NormalForm::nfkc);
#pragma once

#include "yoke/tokenizers/normalized_text.h"

namespace yoke {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

void to_normal_form(NormalizedText& text, NormalForm form);

}  // namespace yoke
