/*
 * unchecked.h - to be included before headers of the unit tests by a program that is none of
 * Check's: what they assert ends it with a message.
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
