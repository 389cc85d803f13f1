// All of yoke.
#pragma once

#include "yoke/core/error.h"
#include "yoke/core/log.h"
#include "yoke/train/trainer.h"
