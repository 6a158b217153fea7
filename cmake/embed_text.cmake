# cmake -DINPUT=file -DOUTPUT=file.cc -DHEADER=header -DFUNCTION=name -P embed_text.cmake: a .cc
# that defines plait::FUNCTION(), the text of INPUT, as HEADER declares it.
file(READ ${INPUT} text)
# A string literal may have 65,536 characters only.
string(LENGTH "${text}" length)
set(parts "")
set(begin 0)
while(begin LESS length)
  string(SUBSTRING "${text}" ${begin} 16000 part)
  string(APPEND parts "    R\"embedded(${part})embedded\"\n")
  math(EXPR begin "${begin} + 16000")
endwhile()
file(WRITE ${OUTPUT}
  "#include \"${HEADER}\"\n\n"
  "namespace plait {\n\n"
  "std::string_view ${FUNCTION}() {\n  return\n${parts}      ;\n}\n\n"
  "}  // namespace plait\n")
