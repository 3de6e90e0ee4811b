// The reader of cubins; its types are public.
#pragma once

#include "tetrad/cubin.hpp"
