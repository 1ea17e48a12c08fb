/*
 * unchecked.h - for programs without Check; include it before headers of the unit tests. Their
 * failed assertions then end the program with a message.
 */
#ifndef UNCHECKED_H
#define UNCHECKED_H

#include "base/check.h"
#include "t/unit/unit.h"

#undef ck_assert
#undef ck_assert_msg
#define ck_assert(condition)          CHECK(condition)
#define ck_assert_msg(condition, ...) CHECK(condition)

#endif
