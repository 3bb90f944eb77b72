#include <string>

extern "C" unsigned long plugin_length() { return std::string(1000, 'x').size(); }
